#!/bin/sh
# Unpack the Kubernetes sources and patch them: the tree that compile.sh compiles.
#
# usage: prepare.sh ORIG_TARBALL DEBIAN_TARBALL TREE [PATCH...]
#
#   ORIG_TARBALL    kubernetes_<version>.orig.tar.*   } of Debian's source package `kubernetes`
#   DEBIAN_TARBALL  kubernetes_<version>.debian.tar.* }
#   TREE            made here; replaced if it exists
#   PATCH...        ours, applied in this order after Debian's
#
# Debian's series is applied whole. As of 1.20.5+really1.20.2-1.1+deb12u1 that is CVE-2021-25743 (kubectl
# prints terminal escape sequences out of objects) and the two upstream changes that its backport stands
# on. None of them touches the build, and a fix that Debian adds later is picked up without a change here.
# A patch that does not apply exactly (no fuzz) stops everything.
#
# Needs: tar, gzip, xz, patch. TREE appears whole, or not at all.

set -eu

die() {
    printf 'prepare.sh: error: %s\n' "$*" >&2
    exit 1
}

apply() {
    printf 'prepare.sh: patch %s\n' "$(basename "$1")"
    patch --directory="$partial" --strip=1 --fuzz=0 --forward --batch --quiet --no-backup-if-mismatch <"$1" ||
        die "$1 does not apply"
}

[ $# -ge 3 ] || die "usage: prepare.sh ORIG_TARBALL DEBIAN_TARBALL TREE [PATCH...]"
orig=$1
debian=$2
tree=$3
shift 3
for file in "$orig" "$debian" "$@"; do
    [ -f "$file" ] || die "$file: no such file"
done

umask 022
partial=$tree.partial
packaging=$tree.debian
rm -rf "$partial" "$packaging"
trap 'rm -rf "$partial" "$packaging"' EXIT
mkdir -p "$partial" "$packaging"

printf 'prepare.sh: unpack %s\n' "$(basename "$orig")"
tar --extract --file "$orig" --directory "$partial" --strip-components=1 --no-same-owner
tar --extract --file "$debian" --directory "$packaging" --no-same-owner debian/patches

# A series file may hold comments and empty lines.
series=$(sed 's/#.*//' "$packaging/debian/patches/series")
for name in $series; do
    apply "$packaging/debian/patches/$name"
done
for file in "$@"; do
    apply "$file"
done

rm -rf "$tree"
mv "$partial" "$tree"
