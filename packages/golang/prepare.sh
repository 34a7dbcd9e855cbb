#!/bin/sh
# Unpack Go sources and the libraries they need, and patch them: the tree that compile.sh compiles.
#
# usage: prepare.sh ORIG_TARBALL DEBIAN_TARBALL GOCODE_TARBALL TREE [PATCH...]
#
#   ORIG_TARBALL    <package>_<version>.orig.tar.*   } of a source package of Debian whose libraries are
#   DEBIAN_TARBALL  <package>_<version>.debian.tar.* } packages of their own
#   GOCODE_TARBALL  usr/share/gocode/src and usr/share/doc/*/copyright out of those packages
#   TREE            made here; replaced if it exists
#   PATCH...        ours, applied in this order after Debian's
#
# TREE is a GOPATH:
#   src/<import path>        the sources, patched; debian/control says the import path
#   src/                     the libraries beside them
#   doc/<package>/copyright  authors and licences of the libraries
#   debian/                  changelog, control and copyright of the sources
#
# Debian's series is applied whole: a fix that Debian adds later is picked up without a change here. A patch
# that does not apply exactly (no fuzz) stops everything.
#
# Needs: tar, xz, patch. TREE appears whole, or not at all. The same file serves every package of this kind.

set -eu

die() {
    printf 'prepare.sh: error: %s\n' "$*" >&2
    exit 1
}

apply() {
    printf 'prepare.sh: patch %s\n' "$(basename "$1")"
    patch --directory="$sources" --strip=1 --fuzz=0 --forward --batch --quiet --no-backup-if-mismatch <"$1" ||
        die "$1 does not apply"
}

unpack() {
    printf 'prepare.sh: unpack %s\n' "$(basename "$1")"
    archive=$1
    shift
    tar --extract --file "$archive" --no-same-owner "$@" || die "$archive does not hold what it should"
}

[ $# -ge 4 ] || die "usage: prepare.sh ORIG_TARBALL DEBIAN_TARBALL GOCODE_TARBALL TREE [PATCH...]"
orig=$1
debian=$2
gocode=$3
tree=$4
shift 4
for file in "$orig" "$debian" "$gocode" "$@"; do
    [ -f "$file" ] || die "$file: no such file"
done

umask 022
partial=$tree.partial
rm -rf "$partial"
trap 'rm -rf "$partial"' EXIT
mkdir -p "$partial"

unpack "$gocode" --directory "$partial" --strip-components=3 usr/share/gocode/src
# Other packages come with the libraries, whose authors have no part in what is linked.
unpack "$gocode" --directory "$partial" --strip-components=2 --wildcards 'usr/share/doc/golang-*/copyright'
unpack "$debian" --directory "$partial" debian/changelog debian/control debian/copyright debian/patches

import_path=$(sed -n 's/^XS-Go-Import-Path: *\([^, ]*\).*/\1/p' "$partial/debian/control")
[ -n "$import_path" ] || die "debian/control of $debian has no XS-Go-Import-Path"
sources=$partial/src/$import_path
# A library may be a piece of the very sources, of another version.
rm -rf "$sources"
mkdir -p "$sources"
unpack "$orig" --directory "$sources" --strip-components=1

# A series file may hold comments and empty lines.
series=$(sed 's/#.*//' "$partial/debian/patches/series")
for name in $series; do
    apply "$partial/debian/patches/$name"
done
for file in "$@"; do
    apply "$file"
done

rm -rf "$partial/debian/patches" "$tree"
mv "$partial" "$tree"
