#!/bin/sh
# Unpack the Python distributions that make up Salt: the folder that compile.sh installs from.
#
# usage: prepare.sh ARCHIVE WHEELS_DIR
#
#   ARCHIVE     tar archive of exactly the files that wheels.sha256 lists, without folders
#   WHEELS_DIR  made here; replaced if it exists
#
# Needs: tar, sha256sum; wheels.sha256 beside this script. WHEELS_DIR appears whole, or not at all.

set -eu

die() {
    printf 'prepare.sh: error: %s\n' "$*" >&2
    exit 1
}

[ $# -eq 2 ] || die "usage: prepare.sh ARCHIVE WHEELS_DIR"
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
archive=$1
wheels=$2
[ -f "$archive" ] || die "$archive: no such file"

umask 022
partial=$wheels.partial
rm -rf "$partial"
trap 'rm -rf "$partial"' EXIT
mkdir -p "$partial"
tar --extract --file "$archive" --directory "$partial" --no-same-owner
(cd "$partial" && sha256sum --check --strict --quiet "$here/wheels.sha256") ||
    die "$archive does not hold what wheels.sha256 lists"
rm -rf "$wheels"
mv "$partial" "$wheels"
