#!/bin/sh
# Signs what this folder asks for, with gpg alone, and packs the signatures for the way back.
#
#   sh sign.sh ANSWER      ANSWER is the tar to write
#
# "table" says what is signed: SHA-256, kind, date (seconds since 1970), fingerprint of the key, what it
# is. What is for a key that is not here is left out: its holder signs the same request. gpg asks for
# passphrases and PINs itself.

set -eu

die() {
    printf 'sign.sh: error: %s\n' "$1" >&2
    exit 1
}

[ $# -eq 1 ] || die "call it so: sh sign.sh ANSWER"
case $1 in
/*) answer=$1 ;;
*) answer=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
[ -f table ] || die "there is no table beside sign.sh"
rm -rf signatures
mkdir signatures

signed=0
left=
# The table comes by a stream of its own: gpg may want the terminal.
while read -r sha256 kind date key what <&3; do
    case $sha256$date$key in
    *[!0-9A-Fa-f]*) die "a line of the table does not ask for a signature" ;;
    esac
    what=$(printf '%s' "$what" | tr -cd '[:print:]')
    if ! gpg --batch --list-secret-keys "$key" >/dev/null 2>&1; then
        case $left in
        *"$key"*) ;;
        *) left="$left $key" ;;
        esac
        continue
    fi
    printf '%s  files/%s\n' "$sha256" "$sha256" | sha256sum -c - >/dev/null ||
        die "the file of \"$what\" is not what the table says"
    case $kind in
    detached) set -- --detach-sign ;;
    armored) set -- --armor --detach-sign ;;
    clear) set -- --clear-sign ;;
    *) die "the table asks for \"$kind\", which is no kind of signature" ;;
    esac
    printf '%s, by %s\n' "$what" "$key"
    gpg --quiet --faked-system-time "$date!" --digest-algo SHA256 --local-user "$key" \
        --output "signatures/$sha256.$kind.$date.$key" "$@" "files/$sha256" ||
        die "gpg did not sign \"$what\""
    signed=$((signed + 1))
done 3<table

for key in $left; do
    printf 'left out, the key is not here: %s\n' "$key"
done
[ "$signed" -gt 0 ] || die "none of the keys of the table is here"
tar -cf "$answer.part" signatures
mv "$answer.part" "$answer"
printf '%s signatures are in %s\n' "$signed" "$answer"
