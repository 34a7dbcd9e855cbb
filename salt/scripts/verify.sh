#!/bin/sh
# Verify a medium of this product: its signature first, then every file. Changes nothing, needs no network.

set -eu

usage() {
    cat <<'END'
usage: verify.sh --key FILE [options] [MEDIUM]

Checks that MEDIUM is what the holder of the key signed: the signature first, then every file of it (changed,
missing, extra). MEDIUM is an ISO file, or the folder where one is mounted or unpacked; without it, the folder
of this script.

  -k, --key FILE        public key that the medium has to be signed with, binary or armored. It has to come to
                        you another way than the medium. Several may be given, in one file or in many.
  -n, --signatures N    ask for valid signatures by N different keys (default: 1)
  -v, --at-least V      refuse a medium that is older than version V
  -j, --jobs N          files that are read at the same time (default: one per processor)
  -q, --quiet           say nothing when all is well
      --insecure-without-signature
                        only compare the medium with itself: finds accidents, proves nothing about its origin
  -h, --help            this text

exit status:
  0   all is well
  1   the check could not be made (usage, a missing program, something that cannot be read)
  10  a signature is bad
  11  there is no signature, or none by a key that was given (or fewer than asked for)
  12  files were changed
  13  files are missing
  14  there are files that do not belong to the medium
  15  the medium is older than asked for
When several hold, the one that comes first in this list counts; all are printed.
END
}

# What nothing hashes to.
EMPTY=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
# Notation by which a signature of a new key names the key that it replaces.
REPLACES=replaces@metalk8s
BAD_SIGNATURE=10 UNKNOWN_KEY=11 CHANGED=12 MISSING=13 EXTRA=14 TOO_OLD=15

die() { # status, sentence
    status=$1
    shift
    printf 'verify.sh: %s\n' "$*" >&2
    exit "$status"
}

say() {
    [ -n "$quiet" ] || printf '%s\n' "$*"
}

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || die 1 "'$tool' is not installed"
    done
}

# Sets `hasher`: openssl reads three times as fast as a sha256sum that does without the processor's instructions.
find_hasher() {
    case $(openssl dgst -sha256 -r /dev/null 2>/dev/null) in
    "$EMPTY *"*) hasher='openssl dgst -sha256 -r' ;;
    *) need sha256sum && hasher='sha256sum -b --' ;;
    esac
}

number() { # option, value
    case $2 in
    '' | *[!0-9]* | 0) die 1 "$1 $2: expected a number above 0" ;;
    esac
}

# Nothing that decides is read twice from a place where it could be exchanged in between: copies are checked and used.
take() { # file, name of the copy
    if [ -L "$1" ]; then die $CHANGED "$1 is a symbolic link, where a file belongs"; fi
    cat "$1" >"$scratch/$2" || die 1 "$1 cannot be read"
}

# gpgv reads binary keys only.
add_key() {
    if [ ! -f "$1" ] || [ ! -r "$1" ]; then die 1 "--key $1: is no file that can be read"; fi
    keys=$((keys + 1))
    ring=$scratch/given$keys.gpg
    if grep -q '^-----BEGIN PGP PUBLIC KEY BLOCK' "$1"; then
        # The last line of an armor, after =, is a checksum.
        sed -e '1,/^[[:space:]]*$/d' -e '/^=/,$d' -e '/^-----/,$d' "$1" | base64 -d >"$ring" ||
            die 1 "--key $1: is no armored key"
    elif grep -q '^-----BEGIN' "$1"; then
        die 1 "--key $1: is no public key"
    else
        cat "$1" >"$ring"
    fi
    [ -s "$ring" ] || die 1 "--key $1: is empty"
    case $(CDPATH='' cd -- "$(dirname -- "$1")" && pwd -P)/ in
    "$root"/*) printf 'verify.sh: warning: %s is on the medium: it proves nothing about who made it\n' "$1" >&2 ;;
    esac
}

# Checks a signature with some keys; what gpgv found is in $scratch/status, its words in $scratch/said.
check_with() { # signature, file, rings
    signature=$1 signed=$2
    shift 2
    for ring in "$@"; do
        set -- "$@" --keyring "$ring"
        shift
    done
    gpgv --status-fd 3 "$@" "$signature" "$signed" 3>"$scratch/status" >"$scratch/said" 2>&1 || :
}

# Tells, of each good signature, the key (its primary one), and the key that it says is replaced: its own unless it
# names another. Good signatures of expired or revoked keys are announced by other words than GOODSIG. gpgv ends at a
# bad signature: so that the order of them does not matter, none counts then.
signers() {
    awk -v notation="$REPLACES" '
        $2 == "NEWSIG" { good = 0; replaced = "" }
        $2 == "GOODSIG" { good = 1 }
        $2 == "NOTATION_NAME" { name = $3 }
        $2 == "NOTATION_DATA" && name == notation { replaced = replaced toupper($3) }
        $2 == "VALIDSIG" && good { found = found $NF " " (replaced == "" ? $NF : replaced) "\n" }
        $2 == "BADSIG" { bad = 1 }
        END { if (!bad) printf "%s", found }
    ' "$scratch/status" | sort -u
}

# Sets `valid` (number of different holders of given keys with a good signature) and `bad` (number of bad ones).
verify_signature() { # signature, file
    check_with "$1" "$2" "$scratch"/given*.gpg
    bad=$(grep -c '^\[GNUPG:\] BADSIG ' "$scratch/status") || :
    others=$(sed -n 's/^\[GNUPG:\] ERRSIG \([0-9A-F]*\) .*/\1/p' "$scratch/status" | sort -u | tr '\n' ' ')
    signers | cut -d ' ' -f 1 | sort -u >"$scratch/holders"
    valid=$(grep -c . "$scratch/holders") || :
}

# Keys that the medium brings can take the places of given ones: that is how keys are replaced.
count_successors() { # signature, file, folder of keys
    : >"$scratch/successors"
    for introduced in "$3"/*.gpg; do
        if [ ! -f "$introduced" ] || [ ! -f "$introduced.sig" ]; then continue; fi
        take "$introduced" introduced.gpg
        take "$introduced.sig" introduced.sig
        is_one_key "$scratch/introduced.gpg" || continue
        check_with "$1" "$2" "$scratch/introduced.gpg"
        successor=$(signers | cut -d ' ' -f 1)
        # A key has one place: a given one has its own.
        if [ -z "$successor" ] || grep -qx "$successor" "$scratch/holders"; then continue; fi
        check_with "$scratch/introduced.sig" "$scratch/introduced.gpg" "$scratch"/given*.gpg
        for place in $(signers | places); do
            printf '%s %s\n' "$successor" "$place" >>"$scratch/successors"
            printf 'verify.sh: note: %s introduces a new key, in the place of %s; keep a copy for later media\n' \
                "$introduced" "$place" >&2
        done
    done
    # Two files may bring the same key, for two places: it has none then.
    sort -u "$scratch/successors" | awk '
        { count[$1]++; place[$1] = $2 }
        END { for (key in count) if (count[key] == 1) print place[key] }
    ' >>"$scratch/holders"
    valid=$(sort -u "$scratch/holders" | grep -c .) || :
}

# Of the pairs of signer and replaced key: those replaced that signed it themselves, with as many others as asked for.
places() {
    awk -v wanted="$wanted" '
        { count[$2]++ }
        $1 == $2 { itself[$2] = 1 }
        END { for (place in count) if (itself[place] && count[place] >= wanted) print place }
    '
}

# A key has one public key packet; user ids, subkeys and signatures belong to it (RFC 4880, 4.2, 4.3 and 11.1).
is_one_key() { # file
    od -A n -v -t u1 "$1" | awk '
        { for (i = 1; i <= NF; i++) octet[count++] = $i }
        function number(octets) { # big-endian
            for (value = 0; octets > 0; octets--) value = value * 256 + octet[at++]
            return value
        }
        END {
            while (at < count) {
                head = octet[at++]
                if (head >= 192) {
                    tag = head - 192; size = number(1)
                    if (size >= 224 && size < 255) exit 1
                    if (size == 255) size = number(4)
                    else if (size >= 192) size = (size - 192) * 256 + number(1) + 192
                } else {
                    tag = int((head - 128) / 4); size = number(2 ^ (head % 4))
                    if (head < 128 || head % 4 == 3) exit 1
                }
                if (tag == 6) keys++
                else if (tag != 2 && tag != 13 && tag != 14 && tag != 17) exit 1
                at += size
            }
            exit !(keys == 1 && at == count)
        }
    '
}

# Takes a file and its signature; from then on, $scratch/signed is the file.
check_signature() { # file
    take "$1" signed
    if [ -n "$insecure" ]; then
        printf 'verify.sh: WARNING: no signature is checked: whoever made this medium could be anybody\n' >&2
        return
    fi
    [ -f "$1.sig" ] || die $UNKNOWN_KEY "$1 is not signed: there is no $1.sig"
    take "$1.sig" signed.sig
    verify_signature "$scratch/signed.sig" "$scratch/signed"
    if [ "$bad" -gt 0 ]; then
        die $BAD_SIGNATURE "the signature $1.sig is bad: $1 is not what was signed"
    fi
    if [ "$valid" -lt "$wanted" ] && [ -d "$root/keys" ]; then
        count_successors "$scratch/signed.sig" "$scratch/signed" "$root/keys"
    fi
    if [ "$valid" -lt "$wanted" ]; then
        die $UNKNOWN_KEY "$1 has $valid signatures by the keys given, $wanted wanted${others:+; others: $others}"
    fi
    say "signature  good: $valid of $wanted wanted"
}

# Versions compare as those of packages: 2.4.0-dev comes before 2.4.0.
check_version() {
    [ -n "$at_least" ] || return 0
    [ -n "$1" ] || die $TOO_OLD "the medium does not say its version, $at_least wanted"
    oldest=$(printf '%s\n' "$1" "$at_least" | sed 's/-/~/' | sort -V | head -n 1)
    if [ "$oldest" != "$(printf '%s' "$at_least" | sed 's/-/~/')" ]; then
        die $TOO_OLD "the medium is version $1, older than $at_least"
    fi
}

verify_image() {
    folder=$(dirname -- "$medium")
    name=$(basename -- "$medium")
    sums=$folder/SHA256SUM
    [ -f "$sums" ] || die $UNKNOWN_KEY "there is no $sums: it belongs beside the ISO, or mount the ISO and name the folder"
    check_signature "$sums"
    before=$(find -H "$medium" -maxdepth 0 -printf "$LOOK")
    # ISO 9660: the primary volume descriptor is sector 16, the volume id 32 bytes from byte 40: name and version.
    volume=$(dd if="$medium" bs=1 skip=32808 count=32 2>/dev/null | tr -d '\0' | sed 's/ *$//')
    check_version "${volume##* }"
    expected=$(awk -v name="$name" '
        { digest = $1; sub(/^[^ ]* [ *]/, ""); if ($0 == name) print digest }' "$scratch/signed")
    [ -n "$expected" ] || die $EXTRA "$sums does not name $name"
    # shellcheck disable=SC2086  # a command and its options
    actual=$($hasher - <"$medium") || die 1 "$medium cannot be read"
    [ "${actual%% *}" = "$expected" ] || die $CHANGED "$medium was changed: SHA-256 ${actual%% *}, signed $expected"
    [ "$before" = "$(find -H "$medium" -maxdepth 0 -printf "$LOOK")" ] || die $CHANGED "$medium $MEANWHILE"
    say "image      $name is what was signed"
}

# The tree is compared by one awk. Each line it reads begins with a letter: M, of the MANIFEST; B, what there is before
# files are read; H, digests as they come; A, what there is afterwards; E, an error.
verify_tree() {
    manifest=$root/MANIFEST
    [ -f "$manifest" ] || die $UNKNOWN_KEY "$root holds no MANIFEST: is it a medium of this product?"
    check_signature "$manifest"
    check_manifest
    check_version "$(sed -n 's/^#version=//p' "$scratch/signed")"
    cd "$root"
    {
        sed 's/^/M\t/' "$scratch/signed"
        list_itself MANIFEST signed
        list_itself MANIFEST.sig signed.sig
        look . B
    } >"$scratch/expected"
    {
        cat "$scratch/expected"
        share_out
        hash_shares | sed 's/^/H\t/'
        # By its name: another one may have been put there.
        look "$root" A
    } >"$scratch/found.pipe" &
    reader=$!
    report <"$scratch/found.pipe"
    wait "$reader" || :
}

# Nothing in a name may look like the end of a line, nor need an escape in what sha256sum prints.
check_manifest() {
    odd=$(tr -d -c '\000-\011\013-\037\177\134' <"$scratch/signed" | wc -c)
    [ "$odd" -eq 0 ] || die 1 "$manifest holds control characters or backslashes"
    line=$(awk "$PARSE"'
        /^#/ { next }
        !parse($0) || named[path]++ { print NR; exit }
    ' "$scratch/signed")
    [ -z "$line" ] || die 1 "$manifest, line $line: expected digest, type, mode, size and a name of its own"
}

# A line of the list says of an entry, in one word each: digest or -, d or f, mode, size; the rest is its name.
# Sets them, and `path`; tells whether it is such a line.
PARSE='
    function parse(line) {
        split(line, word, " ")
        start = word[1] " " word[2] " " word[3] " " word[4] " "
        path = substr(line, length(start) + 1)
        return substr(line, 1, length(start)) == start && path != "" && word[2] ~ /^[df]$/ &&
            word[3] ~ /^[0-7][0-7][0-7][0-7]$/ && word[4] ~ /^[0-9]+$/ &&
            (word[2] == "d" ? word[1] == "-" : length(word[1]) == 64 && word[1] !~ /[^0-9a-f]/)
    }
'

# The list and its signature, which do not name themselves; their modes were not signed.
list_itself() { # name, copy
    [ -f "$scratch/$2" ] || return 0
    # shellcheck disable=SC2086  # a command and its options
    digest=$($hasher - <"$scratch/$2")
    printf 'M\t%s f - %d %s\n' "${digest%% *}" "$(wc -c <"$scratch/$2")" "$1"
}

# Type, mode, owner, size, and the times: whoever exchanges or writes to a file cannot set the time of its change back.
LOOK='%y %m %U %s %T@ %C@'
MEANWHILE='(while it was read)'

# Entries end with NUL, since names may hold everything else; a line feed in a name becomes a control character.
look() { # folder, letter
    { find "$1" -printf "$2\t$LOOK\t%P\0" || printf 'E\tfind failed\0'; } | tr '\n\0' '\001\n'
}

# Deals the files out, the big ones first, each to the processor that has the least to read. Opening one costs too.
# What is not there, no file, or of another size need not be read.
share_out() {
    awk "$PARSE"'
        /^M\t#/ { next }
        /^M\t/ { parse(substr($0, 3)); size[path] = word[2] == "f" ? word[4] : ""; next }
        {
            cut = index(substr($0, 3), "\t"); split(substr($0, 3, cut - 1), is, " "); path = substr($0, cut + 3)
            if (is[1] == "f" && path in size && is[4] == size[path]) print is[4] "\t" path
        }
    ' "$scratch/expected" | sort -rn | scratch=$scratch awk -F '\t' -v jobs="$jobs" '{
        least = 1
        for (i = 2; i <= jobs; i++) if (load[i] + 0 < load[least] + 0) least = i
        load[least] += $1 + 65536
        # No name is taken for an option, nor for the standard input.
        print "./" $2 >(ENVIRON["scratch"] ($1 >= 1048576 ? "/big" : "/small") least)
    }'
}

# Several write to one pipe: what a process says must fit into one write, so the many small ones say it at the end.
hash_shares() {
    i=1
    while [ "$i" -le "$jobs" ]; do
        : >>"$scratch/big$i" && : >>"$scratch/small$i"
        # shellcheck disable=SC2086  # a command and its options
        {
            tr '\n' '\0' <"$scratch/big$i" | xargs -0 -r -n 4 $hasher
            tr '\n' '\0' <"$scratch/small$i" | xargs -0 -r $hasher >"$scratch/said$i"
        } &
        i=$((i + 1))
    done
    wait
    cat "$scratch"/said[0-9]*
}

report() {
    awk -v progress="$progress" -v quiet="$quiet" -v me="$(id -u)" -v meanwhile="$MEANWHILE" "$PARSE"'
        function complain(kind, path, why) {
            if (path in named) return
            named[path] = 1; count[kind]++
            gsub(/[\001-\037\177]/, "?", path)
            problems[kind] = problems[kind] sprintf("%-10s %s%s\n", kind, path == "" ? "." : path, why == "" ? "" : " " why)
        }
        function examine(path, kind, octal, owner, bytes) {
            listed = path in type
            if (path == "MANIFEST.sig" && !listed) return
            seen[path] = 1
            if (path ~ /[\001-\037\177\\]/) complain("extra", path, "(a control character or backslash in the name)")
            else if (path != "" && !listed) complain("extra", path)
            else if (listed && kind != type[path]) complain("changed", path)
            else if (listed && mode[path] != "-" && octal != mode[path])
                complain("changed", path, "(mode " octal ", signed " mode[path] ")")
            else if (listed && mode[path] == "-" && octal !~ /^[46][046][046]$/)
                complain("changed", path, "(mode " octal ", expected 644)")
            else if (owner != 0 && owner != me) complain("changed", path, "(owner " owner ", who is not root)")
            else if (octal ~ /[2367].?$/) complain("changed", path, "(mode " octal ": others may write to it)")
            else if (kind == "f" && bytes != size[path]) complain("changed", path)
        }
        { tag = substr($0, 1, 1); rest = substr($0, 3) }
        tag == "M" {
            if (rest ~ /^#/) next
            parse(rest); type[path] = word[2]; digest[path] = word[1]
            mode[path] = word[3]; sub(/^0+/, "", mode[path])
            if (word[2] == "f") {
                total += word[4]; size[path] = word[4]
                if (word[3] != "-") { files++; bytes += word[4] }
            }
            next
        }
        tag == "E" { complain("unread", rest); next }
        tag == "H" {
            sum = substr(rest, 1, 64); path = substr(rest, 69)
            hashed[path] = 1; done += size[path]
            if (sum != digest[path]) complain("changed", path)
            if (progress && total && int(done * 100 / total) != shown) {
                shown = int(done * 100 / total)
                printf "\rfiles      %3d %%", shown >"/dev/stderr"
            }
            next
        }
        { cut = index(rest, "\t"); look = substr(rest, 1, cut - 1); path = substr(rest, cut + 1) }
        tag == "B" {
            before[path] = look
            split(look, is, " ")
            examine(path, is[1], is[2], is[3], is[4])
        }
        tag == "A" {
            if (before[path] != look) complain("changed", path, meanwhile)
            after[path] = 1
        }
        END {
            if (progress) printf "\r%20s\r", "" >"/dev/stderr"
            for (path in type) {
                if (!(path in seen)) complain("missing", path)
                else if (type[path] == "f" && !(path in hashed)) complain("unread", path)
            }
            for (path in before) if (!(path in after)) complain("changed", path, meanwhile)
            printf "%s%s%s%s", problems["changed"], problems["missing"], problems["extra"], problems["unread"] | "sort >&2"
            close("sort >&2")
            if (count["changed"]) exit '"$CHANGED"'
            if (count["missing"]) exit '"$MISSING"'
            if (count["extra"]) exit '"$EXTRA"'
            if (count["unread"]) exit 1
            if (!quiet) printf "files      %d are what was signed, %.0f bytes\n", files, bytes
        }
    '
}

at_least='' insecure='' jobs='' key_files='' medium='' quiet='' wanted=1 keys=0
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -q | --quiet) quiet=1 ;;
    --insecure-without-signature) insecure=1 ;;
    -k | --key | -n | --signatures | -v | --at-least | -j | --jobs)
        [ $# -ge 2 ] || die 1 "$1 needs a value; see --help"
        case $1 in
        -k | --key) key_files="$key_files$2
" ;;
        -n | --signatures) number "$1" "$2" && wanted=$2 ;;
        -v | --at-least) at_least=$2 ;;
        *) number "$1" "$2" && jobs=$2 ;;
        esac
        shift
        ;;
    --key=* | --signatures=* | --at-least=* | --jobs=*)
        option=${1%%=*} value=${1#*=}
        shift
        set -- "$option" "$value" "$@"
        continue
        ;;
    --)
        shift
        [ $# -le 1 ] || die 1 "only one medium can be verified at a time"
        medium=${1:-$medium}
        break
        ;;
    -*) die 1 "$1 is no option; see --help" ;;
    *)
        [ -z "$medium" ] || die 1 "only one medium can be verified at a time"
        medium=$1
        ;;
    esac
    shift
done

need awk base64 basename cut dd find grep id mkfifo mktemp od sed sort tr wc xargs
find_hasher
[ -n "$insecure" ] || need gpgv
[ -n "$key_files" ] || [ -n "$insecure" ] ||
    die 1 "no key: give the public key of who makes the media with --key FILE; see --help"
export LC_ALL=C
medium=${medium:-$(dirname -- "$0")}
[ -e "$medium" ] || die 1 "$medium: no such file or folder"
root=/nonexistent
[ ! -d "$medium" ] || root=$(CDPATH='' cd -- "$medium" && pwd -P)
jobs=${jobs:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
progress=''
[ -n "$quiet" ] || [ ! -t 2 ] || progress=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
scratch=$(CDPATH='' cd -- "$scratch" && pwd -P)
mkfifo "$scratch/found.pipe"
while IFS= read -r file; do
    [ -z "$file" ] || add_key "$file"
done <<END
$key_files
END

if [ -d "$medium" ]; then
    verify_tree
else
    verify_image
fi
