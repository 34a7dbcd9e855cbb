#!/bin/sh
# Verify a medium of this product: its signature first, then every file. Needs no network, and changes nothing unless it
# is asked to repair an ISO from another copy.

set -eu

usage() {
    cat <<'END'
usage: verify.sh --key FILE [options] [MEDIUM]
       verify.sh --key FILE [options] --repair --from SOURCE [--from SOURCE ...] [--dry-run] MEDIUM

Checks that MEDIUM is what the holder of the key signed: the signature first, then every file of it (changed,
missing, extra). MEDIUM is an ISO file, or the folder where one is mounted or unpacked; without it, the folder
of this script.

  -k, --key FILE        public key that the medium has to be signed with, binary or armored. It has to come to
                        you another way than the medium. Several may be given, in one file or in many.
  -n, --signatures N    ask for valid signatures by N different keys (default: 1)
  -v, --at-least V      refuse a medium that is older than version V
  -j, --jobs N          files that are read at the same time (default: one per processor)
  -q, --quiet           say nothing when all is well
      --repair          find what is damaged in MEDIUM, an ISO file or a device (a stick) that an ISO was written
                        to, and write only that, from the sources. What is written is verified before, and
                        everything afterwards. It may be interrupted at any time: the next run goes on. A MEDIUM
                        that is not there is made, and gets its name when it is whole
      --from SOURCE     another copy of the ISO, which may be damaged elsewhere: a file, a device, or the folder
                        where one is mounted. Several are asked in their order
      --dry-run         say what would be repaired; change nothing
      --blocks FILE     signed list of the blocks of the ISO (default: MEDIUM.blocks, or else SOURCE.blocks)
      --insecure-without-signature
                        only compare the medium with itself: finds accidents, proves nothing about its origin
  -h, --help            this text

exit status:
  0   all is well
  1   the check or the repair could not be made (usage, a missing program, something that cannot be read or written)
  10  a signature is bad
  11  there is no signature, or none by a key that was given (or fewer than asked for)
  12  files were changed; after --repair, something is still damaged
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

# ISO 9660: the primary volume descriptor is sector 16, the volume id 32 bytes from byte 40: name and version. Something
# else may be there in a damaged one: nothing of it gets to a terminal.
volume_of() { # file
    dd if="$1" bs=1 skip=32808 count=32 2>/dev/null | tr -d -c '\040-\176' | sed 's/ *$//'
}

verify_image() {
    folder=$(dirname -- "$medium")
    name=$(basename -- "$medium")
    sums=$folder/SHA256SUM
    [ -f "$sums" ] || die $UNKNOWN_KEY "there is no $sums: it belongs beside the ISO, or mount the ISO and name the folder"
    check_signature "$sums"
    before=$(find -H "$medium" -maxdepth 0 -printf "$LOOK")
    volume=$(volume_of "$medium")
    check_version "${volume##* }"
    expected=$(awk -v name="$name" '
        { digest = $1; sub(/^[^ ]* [ *]/, ""); if ($0 == name) print digest }' "$scratch/signed")
    [ -n "$expected" ] || die $EXTRA "$sums does not name $name"
    # shellcheck disable=SC2086  # a command and its options
    actual=$($hasher - <"$medium") || { name_damage && die 1 "$medium cannot be read"; }
    [ "${actual%% *}" = "$expected" ] || {
        name_damage
        die $CHANGED "$medium was changed: SHA-256 ${actual%% *}, signed $expected"
    }
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

# -- Repair. An ISO is compared by a signed list of its blocks: digests of portions, which are read first, and of the
# blocks that these consist of. Descriptor 4 is the ISO, so that nobody can put another file there meanwhile.

# Sets what a list says: volume, digest, size, block, portion. Digests are in $scratch/portions and $scratch/blocks then.
read_list() { # file
    check_signature "$1"
    volume=$(fact volume) digest=$(fact sha256) size=$(fact size) block=$(fact block) portion=$(fact portion)
    for kind in P.portions B.blocks; do
        sed -n "s/^${kind%.*} //p" "$scratch/signed" >"$scratch/${kind#*.}"
    done
    awk -v digest="$digest" -v size="$size" -v block="$block" -v portion="$portion" '
        function is_digest(word) { return length(word) == 64 && word !~ /[^0-9a-f]/ }
        function is_number(word) { return word ~ /^[1-9][0-9]*$/ && length(word) < 16 }
        function parts(length_) { return int((size + length_ - 1) / length_) }
        /^#/ { next }
        $1 ~ /^[PB]$/ && NF == 2 && is_digest($2) { count[$1]++; next }
        { odd = 1 }
        END {
            if (odd || !is_digest(digest) || !is_number(size) || !is_number(block) || !is_number(portion)) exit 1
            exit !(portion % block == 0 && count["P"] == parts(portion) && count["B"] == parts(block))
        }
    ' "$scratch/signed" || die 1 "$1 is no list of blocks that this script understands"
    check_version "${volume##* }"
}

fact() { # name
    sed -n "s/^#$1=//p" "$scratch/signed"
}

# Prints some bytes of a file, or those before the first that cannot be read.
slice() { # file, first byte, number
    dd if="$1" bs=1M iflag=fullblock,skip_bytes,count_bytes skip="$2" count="$3" 2>/dev/null
}

# Puts blocks of a file into $scratch/taken, a file each; what cannot be read is missing or short there.
take_blocks() { # file, first block, number
    rm -rf "$scratch/taken" && mkdir "$scratch/taken"
    if slice "$1" $(($2 * block)) $(($3 * block)) >"$scratch/slice"; then
        split -b "$block" -a 8 --numeric-suffixes="$2" "$scratch/slice" "$scratch/taken/"
        cut_last "$2" "$3"
        return
    fi
    # Some of it cannot be read: each block for itself.
    taken=$2
    while [ "$taken" -lt $(($2 + $3)) ]; do
        slice "$1" $((taken * block)) "$block" >"$scratch/taken/$(block_name "$taken")" || :
        taken=$((taken + 1))
    done
    cut_last "$2" "$3"
}

block_name() { # block
    printf '%08d' "$1"
}

# The last block of an ISO ends where the ISO does; a device goes on, as does a file that is too long.
cut_last() { # first block, number
    last=$(((size - 1) / block))
    if [ "$last" -ge $(($1 + $2)) ]; then return; fi
    name=$scratch/taken/$(block_name "$last") length=$((size - last * block))
    # One that is too short stays so: zeros at its end would be what an ISO ends with.
    if [ -f "$name" ] && [ "$(length_of "$name")" -gt "$length" ]; then
        dd if=/dev/null of="$name" bs=1 seek="$length" count=0 2>/dev/null
    fi
}

# Prints which of the blocks in $scratch/taken are not what was signed.
wrong_blocks() { # first block, number
    {
        sed -n "$(($1 + 1)),$(($1 + $2))p" "$scratch/blocks" | sed 's/^/S /'
        # shellcheck disable=SC2086  # a command and its options
        (cd "$scratch/taken" && $hasher [0-9]* 2>/dev/null) | sed 's/^/T /' || :
    } | awk -v first="$1" -v number="$2" '
        $1 == "S" { signed[first + wanted++] = $2 }
        $1 == "T" { sub(/^\*/, "", $3); taken[$3 + 0] = $2 }
        END { for (i = first; i < first + number; i++) if (taken[i] != signed[i]) print i }
    '
}

# Joins numbers of blocks: prints the first of each range, and how many they are.
ranges() { # at most so many
    awk -v most="${1:-0}" '
        NR > 1 && $1 == first + many && (!most || many < most) { many++; next }
        NR > 1 { print first, many }
        { first = $1; many = 1 }
        END { if (NR) print first, many }
    '
}

# Names, in bytes, the ranges of blocks that it reads.
tell() { # what they are, what else to say
    ranges | awk -v block="$block" -v size="$size" -v what="$1" -v more="${2:-}" '{
        end = ($1 + $2) * block
        printf "%-10s bytes %.0f to %.0f%s\n", what, $1 * block, (end > size ? size : end) - 1, more
    }'
}

# Writes the numbers of the blocks that are not what was signed to $scratch/damaged; sets `excess`, in bytes.
find_damage() {
    : >"$scratch/damaged"
    number=0
    while read -r expected; do
        at=$((number * portion)) length=$portion
        [ $((at + length)) -le "$size" ] || length=$((size - at))
        # shellcheck disable=SC2086  # a command and its options
        actual=$(slice /dev/fd/4 "$at" "$length" | $hasher -)
        if [ "${actual%% *}" != "$expected" ]; then
            first=$((at / block)) many=$(((length + block - 1) / block))
            take_blocks /dev/fd/4 "$first" "$many"
            wrong_blocks "$first" "$many" >>"$scratch/damaged"
        fi
        number=$((number + 1))
        [ -z "$progress" ] || printf '\rlooking    %3d %%' $((at / (size / 100 + 1))) >&2
    done <"$scratch/portions"
    [ -z "$progress" ] || printf '\r%20s\r' '' >&2
    excess=0
    if [ -f "$medium" ]; then excess=$(($(length_of /dev/fd/4) - size)); fi
}

length_of() { # file
    find -H "$1" -maxdepth 0 -printf '%s'
}

damaged_blocks() {
    wc -l <"$scratch/damaged" | tr -d ' '
}

# Says, in words for people, where an ISO was changed, if there is a list that tells.
name_damage() {
    (
        if [ ! -f "$medium.blocks" ]; then exit; fi
        read_list "$medium.blocks" >/dev/null
        if [ "$digest" != "$expected" ]; then exit; fi
        exec 4<"$medium"
        find_damage
        say_damage
    ) >&2 || :
}

say_damage() {
    tell damaged <"$scratch/damaged"
    [ "$excess" -le 0 ] || printf '%-10s %d bytes\n' 'too long' "$excess"
}

# Sees to it that there is something to repair, and from what; a folder becomes the device that is mounted there.
check_request() {
    need df findmnt mkdir mv readlink rm seq split sync
    [ -n "$medium" ] || die 1 "--repair: say which ISO; see --help"
    [ -n "$sources" ] || die 1 "--repair needs another copy of the ISO, --from SOURCE; see --help"
    [ -z "$insecure" ] || die 1 "--repair needs a key: without a signature nothing says what belongs into the ISO"
    [ ! -d "$medium" ] || die 1 "$medium is a folder: --repair is for ISO files and devices; repair the ISO it came from"
    if [ -e "$medium" ]; then
        [ -f "$medium" ] || [ -b "$medium" ] || die 1 "$medium is neither a file nor a block device"
        [ -n "$dry_run" ] || check_target
    fi
    given=$sources sources='' known='' own=$(identity "$medium")
    while IFS= read -r source; do
        [ -z "$source" ] || add_source "$source"
    done <<END
$given
END
}

check_target() {
    [ -w "$medium" ] || die 1 "$medium cannot be written to: it is read-only, or not yours"
    path=$(readlink -f -- "$medium")
    if [ -b "$medium" ]; then
        place=$(findmnt -n -o TARGET --source "$path") || place=''
        [ -z "$place" ] || die 1 "$medium is mounted at $place: unmount it first"
    else
        using=$(grep -lsxF -e "$path" /sys/block/loop*/loop/backing_file) || using=''
        using=${using#/sys/block/}
        [ -z "$using" ] || die 1 "$medium is in use as /dev/${using%%/*}: unmount it first (umount, losetup -d)"
    fi
}

# What a file or device is, whatever it is called.
identity() { # file
    if [ -b "$1" ]; then
        readlink -f -- "$1"
    else
        find -H "$1" -maxdepth 0 -printf '%D:%i' 2>/dev/null || :
    fi
}

add_source() { # file, device or folder
    source=$1
    if [ -d "$1" ]; then
        source=$(findmnt -n -o SOURCE --mountpoint "$1") || source=''
        [ -b "$source" ] ||
            die 1 "--from $1: is a folder where no ISO is mounted; name an ISO, a device, or the folder of a mount"
    fi
    [ -f "$source" ] || [ -b "$source" ] || die 1 "--from $1: no such file or device"
    [ -r "$source" ] || die 1 "--from $1: ${source} cannot be read; are you root?"
    other=$(identity "$source")
    [ "$other" != "$own" ] || die 1 "--from $1: is the medium that is to be repaired; name another copy"
    case " $known " in
    *" $other "*) die 1 "--from $1: is given twice" ;;
    esac
    known="$known $other"
    sources="$sources$source
"
}

# Sets `list`, unless it was given: the one beside the ISO, or beside a source.
find_list() {
    [ -z "$list" ] || return 0
    while IFS= read -r source; do
        [ -n "$list" ] || [ ! -f "$source.blocks" ] || list=$source.blocks
    done <<END
$medium
$sources
END
    [ -n "$list" ] || die $UNKNOWN_KEY "there is no list of the blocks of this ISO, $medium.blocks:" \
        "get it with its .sig from where the ISO came from, or name it with --blocks FILE"
}

repair_image() {
    find_list
    [ -f "$list" ] || die 1 "--blocks $list: no such file"
    read_list "$list"
    wanted_volume=$volume target=$medium
    open_target
    find_damage
    before=$(damaged_blocks)
    if [ "$before" -eq 0 ] && [ "$excess" -le 0 ]; then
        finish
        say "blocks     all $(wc -l <"$scratch/blocks" | tr -d ' ') are what was signed; there is nothing to repair"
        return
    fi
    [ -n "$quiet" ] || say_damage
    [ "$target" != "$medium" ] || check_likeness
    check_space
    while IFS= read -r source; do
        [ -z "$source" ] || mend_from "$source"
    done <<END
$sources
END
    if [ "$(damaged_blocks)" -gt 0 ]; then
        tell 'still bad' <"$scratch/damaged" >&2
        die $CHANGED "$target: no source has what belongs there; give another copy with --from"
    fi
    if [ -n "$dry_run" ]; then
        say "dry run    $target would be what was signed; nothing was changed"
        return
    fi
    if [ "$excess" -gt 0 ]; then
        dd if=/dev/null of=/dev/fd/4 bs=1 seek="$size" count=0 conv=fsync 2>"$scratch/said" || unwritten
    fi
    actual=$(whole_digest) || die $CHANGED "$target cannot be read after it was repaired"
    [ "${actual%% *}" = "$digest" ] || die $CHANGED "$target does not keep what was written to it: is it worn out?"
    finish
    say "image      ${target##*/} is what was signed"
}

# A device goes on behind the ISO.
whole_digest() {
    # shellcheck disable=SC2086  # a command and its options
    if [ -b "$medium" ]; then slice /dev/fd/4 0 "$size" | $hasher -; else $hasher - </dev/fd/4; fi
}

# Opens what is to be repaired. What is not there is made under another name, which it keeps until it is whole.
open_target() {
    if [ ! -e "$medium" ]; then
        folder=$(dirname -- "$medium")
        if [ ! -d "$folder" ] || [ ! -w "$folder" ]; then die 1 "$folder: no such folder, or it cannot be written to"; fi
        medium=$medium.part
        if [ -n "$dry_run" ] && [ ! -e "$medium" ]; then medium=/dev/null; fi
        if [ -L "$medium" ]; then die 1 "$medium is a symbolic link: remove it"; fi
    fi
    if [ -n "$dry_run" ]; then
        exec 4<"$medium"
    else
        exec 4<>"$medium"
    fi
}

finish() {
    if [ "$target" = "$medium" ] || [ -n "$dry_run" ]; then return; fi
    mv -f -- "$medium" "$target" || die 1 "$medium cannot be renamed to $target"
    sync -- "$(dirname -- "$target")" || die 1 "$target cannot be written"
}

# Another file than a damaged copy is not overwritten. Blocks of zeros are in many.
check_likeness() {
    if [ -f "$medium" ] && [ "$(length_of /dev/fd/4)" -eq 0 ]; then return; fi
    all=$(wc -l <"$scratch/blocks") wrong=$(damaged_blocks) found=$(volume_of /dev/fd/4)
    right=$({ sed 's/^/D /' "$scratch/damaged" && zeros "$block" && zeros $((size % block)) && sed 's/^/B /' "$scratch/blocks"; } | awk '
        $1 == "D" { damaged[$2] = 1 }
        $1 == "Z" { zeros[$2] = 1 }
        $1 == "B" { if (!(number++ in damaged) && !($2 in zeros)) right++ }
        END { print right + 0 }')
    if is_other_version "$found" && [ $((wrong * 2)) -gt "$all" ]; then
        die 1 "$medium is another version, $found; the list of blocks is of $wanted_volume"
    fi
    [ "$right" -gt 0 ] || die 1 "$medium has nothing of this ISO: it is something else, or lost;" \
        "to get a new copy, remove it and run this again"
    if [ -b "$medium" ] && [ $((wrong * 2)) -gt "$all" ]; then
        die 1 "$medium has less than half of this ISO: it holds something else; to write the ISO on it, use dd"
    fi
}

is_other_version() { # volume id
    case $1 in
    "$wanted_volume") return 1 ;;
    "${wanted_volume% *} "*) return 0 ;;
    *) return 1 ;;
    esac
}

zeros() { # number of bytes
    # shellcheck disable=SC2086  # a command and its options
    slice /dev/zero 0 "$1" | $hasher - | sed 's/^/Z /'
}

check_space() {
    if [ ! -f "$medium" ] || [ -n "$dry_run" ]; then return; fi
    more=$(((size - $(length_of /dev/fd/4)) / 1024))
    free=$(df -P -k -- "$medium" | awk 'NR == 2 { print $4 }')
    [ "$more" -le "$free" ] || die 1 "no space for $medium: it needs $more KiB more, $free are free"
}

# Writes those damaged blocks that a source has; $scratch/damaged has the others then.
mend_from() { # source
    : >"$scratch/still" && : >"$scratch/mended"
    ranges $((portion / block)) <"$scratch/damaged" >"$scratch/ranges"
    while read -r first many; do
        take_blocks "$1" "$first" "$many"
        wrong_blocks "$first" "$many" >"$scratch/wrong"
        awk -v first="$first" -v many="$many" '
            { wrong[$1] = 1 }
            END { for (i = first; i < first + many; i++) if (!(i in wrong)) print i }
        ' "$scratch/wrong" >"$scratch/right"
        ranges <"$scratch/right" >"$scratch/runs"
        while read -r start count; do
            [ -n "$dry_run" ] || write_blocks "$start" "$count"
        done <"$scratch/runs"
        cat "$scratch/wrong" >>"$scratch/still"
        cat "$scratch/right" >>"$scratch/mended"
    done <"$scratch/ranges"
    mv "$scratch/still" "$scratch/damaged"
    found=$(volume_of "$1")
    if [ -s "$scratch/mended" ]; then
        [ -n "$quiet" ] || tell "${dry_run:+would be }repaired" ", from $1" <"$scratch/mended"
    elif is_other_version "$found"; then
        printf 'verify.sh: %s has none of it: it is another version, "%s", wanted "%s"\n' "$1" "$found" "$wanted_volume" >&2
    elif [ -s "$scratch/damaged" ]; then
        printf 'verify.sh: %s has none of it: it is damaged at the same places, or of another build\n' "$1" >&2
    fi
}

# Blocks that were verified where they lie now, in $scratch/taken: nobody else can change them there.
write_blocks() { # first block, number
    (cd "$scratch/taken" && seq -f %08.0f "$1" $(($1 + $2 - 1)) | xargs cat) |
        dd of=/dev/fd/4 bs="$block" seek="$1" iflag=fullblock oflag=nocache conv=notrunc,fsync 2>"$scratch/said" ||
        unwritten
}

unwritten() {
    die 1 "$medium cannot be written: $(sed -n 's/^dd: .*: //p' "$scratch/said")"
}

at_least='' insecure='' jobs='' key_files='' medium='' quiet='' wanted=1 keys=0
repair='' dry_run='' sources='' list=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -q | --quiet) quiet=1 ;;
    --insecure-without-signature) insecure=1 ;;
    --repair) repair=1 ;;
    --dry-run) dry_run=1 ;;
    -k | --key | -n | --signatures | -v | --at-least | -j | --jobs | --from | --blocks)
        [ $# -ge 2 ] || die 1 "$1 needs a value; see --help"
        case $1 in
        -k | --key) key_files="$key_files$2
" ;;
        -n | --signatures) number "$1" "$2" && wanted=$2 ;;
        -v | --at-least) at_least=$2 ;;
        --from) sources="$sources$2
" ;;
        --blocks) list=$2 ;;
        *) number "$1" "$2" && jobs=$2 ;;
        esac
        shift
        ;;
    --key=* | --signatures=* | --at-least=* | --jobs=* | --from=* | --blocks=*)
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
if [ -n "$repair" ]; then
    check_request
else
    [ -z "$sources$list$dry_run" ] || die 1 "--from, --blocks and --dry-run belong to --repair; see --help"
    medium=${medium:-$(dirname -- "$0")}
    [ -e "$medium" ] || die 1 "$medium: no such file or folder"
fi
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

if [ -n "$repair" ]; then
    repair_image
elif [ -d "$medium" ]; then
    verify_tree
else
    verify_image
fi
