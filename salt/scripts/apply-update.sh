#!/bin/sh
# Make a newer ISO of this product out of an older one and an update pack. Needs no network; the older one stays as it is.

set -eu

usage() {
    cat <<'END'
usage: apply-update.sh --key FILE --from ISO [options] PACK FOLDER|DEVICE

Makes the ISO that PACK leads to, byte for byte, out of the older one that it starts from. All of PACK and ISO is
verified before anything is written, and everything that was written before it counts. It may be stopped at any
time, by the power as well: the same command goes on. Of two runs for one FOLDER, the second is refused.

  FOLDER                gets the ISO, by its name and only when it is whole, with its signed lists; is made if need
                        be. It needs room for the whole ISO
  DEVICE                gets the ISO (a stick), and does not look like one before it is whole

  -f, --from ISO        ISO that the pack starts from: a file, a device, or the folder where one is mounted
  -k, --key FILE        public key that the pack has to be signed with, binary or armored. It has to come to you
                        another way than the pack. Several may be given, in one file or in many
  -n, --signatures N    ask for valid signatures by N different keys (default: 1)
  -v, --at-least V      refuse a pack that leads to a version older than V
      --allow-older     take a pack that leads back to an older version, as far as who made it allows that
      --overwrite       take a DEVICE that holds something else than an ISO of this product
      --dry-run         check everything; change nothing
  -q, --quiet           say nothing when all is well
  -h, --help            this text

exit status:
  0   the ISO is there
  1   it could not be made (usage, a missing program, no space, something that cannot be read or written)
  10  the signature of the pack is bad
  11  the pack has no signature by a key that was given (or fewer than asked for)
  12  the pack was changed, or what was written is not what was signed
  15  the pack leads to an older version than is allowed
  16  the pack starts from another ISO
END
}

# What nothing hashes to.
EMPTY=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
BAD_SIGNATURE=10 UNKNOWN_KEY=11 CHANGED=12 TOO_OLD=15 ANOTHER=16
HEAD=64 LARGEST=67108864
# What a device begins with until it is whole. ISO 9660 leaves the first 32 KiB to others (ECMA-119, 6.2.1).
UNFINISHED=metalk8s-update-unfinished
FIRST=65536

die() { # status, sentence
    status=$1
    shift
    printf 'apply-update.sh: %s\n' "$*" >&2
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

# Prints the SHA-256 of what it reads.
digest() {
    # shellcheck disable=SC2086  # a command and its options
    hashed=$($hasher -)
    printf '%s' "${hashed%% *}"
}

# Prints the SHA-256 of the first bytes of a file or device; a file has no more than those.
digest_of() { # file, number
    if [ -b "$1" ]; then slice "$1" 0 "$2" | digest; else digest <"$1"; fi
}

# Prints some bytes of a file.
slice() { # file, first byte, number
    dd if="$1" bs=1M iflag=fullblock,skip_bytes,count_bytes skip="$2" count="$3" 2>/dev/null
}

length_of() { # file or device
    if [ -b "$1" ]; then blockdev --getsize64 "$1"; else find -H "$1" -maxdepth 0 -printf '%s'; fi
}

# ISO 9660: the primary volume descriptor is sector 16, the volume id 32 bytes from byte 40: name and version.
volume_of() { # file
    slice "$1" 32808 32 | tr -d -c '\040-\176' | sed 's/ *$//'
}

# Versions compare as those of packages: 2.4.0-dev comes before 2.4.0.
is_older() { # version, than which
    oldest=$(printf '%s\n' "$1" "$2" | sed 's/-/~/' | sort -V | head -n 1)
    [ "$1" != "$2" ] && [ "$oldest" = "$(printf '%s' "$1" | sed 's/-/~/')" ]
}

is_number() {
    case $1 in
    '' | *[!0-9]* | ????????????????*) return 1 ;;
    esac
}

# -- The pack. What decides is copied to a folder of our own, verified there, and read from there.

read_pack() {
    if [ ! -f "$pack" ] || [ ! -r "$pack" ]; then die 1 "$pack: is no file that can be read"; fi
    begin=$(slice "$pack" 0 $HEAD | tr -d -c '\040-\176')
    # shellcheck disable=SC2086  # words
    set -- $begin
    [ "${1:-}" = metalk8s-update ] || die 1 "$pack is no update pack"
    [ "${2:-}" = 1 ] || die 1 "$pack is of a kind that this script does not know: take that of a newer medium"
    if ! is_number "${3:-}" || ! is_number "${4:-}" || [ $(($3 + $4)) -gt $LARGEST ]; then
        die $CHANGED "$pack was changed: its head; get it again"
    fi
    slice "$pack" $HEAD "$3" >"$scratch/update.manifest"
    slice "$pack" $((HEAD + $3)) "$4" >"$scratch/SHA256SUM.sig"
    data_at=$((HEAD + $3 + $4))
    check_signature
    data_size=$(fact data-size)
    [ "$(length_of "$pack")" -eq $((data_at + data_size)) ] ||
        die $CHANGED "$pack is cut or too long: it has $(length_of "$pack") bytes, $((data_at + data_size)) were signed"
}

# The signature is of what sha256sum says of the manifest, so that verify.sh can tell what it is worth.
check_signature() {
    printf '%s  update.manifest\n' "$(digest <"$scratch/update.manifest")" >"$scratch/SHA256SUM"
    set -- --quiet --signatures "$wanted"
    while IFS= read -r file; do
        [ -z "$file" ] || set -- "$@" --key "$file"
    done <<END
$key_files
END
    status=0
    sh "$verifier" "$@" "$scratch/update.manifest" >"$scratch/said" 2>&1 || status=$?
    case $status in
    0) ;;
    "$BAD_SIGNATURE") die $BAD_SIGNATURE "the signature of $pack is bad: it was changed on the way; get it again" ;;
    "$UNKNOWN_KEY") die $UNKNOWN_KEY "$pack is not signed by the keys given, or by fewer than $wanted of them" ;;
    *) die 1 "the signature of $pack cannot be checked: $(sed 's/^verify.sh: //' "$scratch/said")" ;;
    esac
    say "signature  good: $wanted wanted"
}

fact() { # name
    sed -n "s/^#$1=//p" "$scratch/update.manifest"
}

# Sets what the pack is, and refuses to go back.
read_facts() {
    name=$(fact name) from=$(fact from) to=$(fact to) floor=$(fact floor) base=$(fact base) base_size=$(fact base-size)
    target=$(fact target) size=$(fact size) portion=$(fact portion)
    for value in "$base_size" "$size" "$portion" "$data_size"; do
        is_number "$value" || die 1 "$pack says nothing that this script understands: '$value' is no number"
    done
    case $name in
    '' | */* | .*) die 1 "$pack names the ISO '$name', which is no name of a file" ;;
    esac
    say "pack       leads from $from to $to"
    [ -n "$allow_older" ] || ! is_older "$to" "$from" ||
        die $TOO_OLD "$pack leads back from $from to $to; if that is what you want, say --allow-older"
    ! is_older "$to" "$floor" || die $TOO_OLD "$pack leads to $to, below its own floor, $floor"
    [ -z "$at_least" ] || ! is_older "$to" "$at_least" || die $TOO_OLD "$pack leads to $to, older than $at_least"
}

# Writes what to do to $scratch/plan, places counted from the beginning of the pack: F place bytes digest name;
# P portion place bytes form; of a portion, B and R place bytes, of the old ISO and of the pack, and L, of what the
# portion's bytes of the pack unpack to.
make_plan() {
    awk -v at="$data_at" '
        /^#/ { next }
        $1 == "F" && NF == 4 { printf "F %.0f %.0f %s %s\n", at, $3, $2, $4; at += $3; next }
        $1 == "P" && NF == 4 { printf "P %d %.0f %.0f %s\n", number++, at, $2, $4; raw = $4 == "raw"; here = at; at += $2; inner = 0; next }
        $1 == "B" && NF == 3 { printf "B %.0f %.0f\n", $2, $3; next }
        $1 == "L" && NF == 2 { printf "%s %.0f %.0f\n", raw ? "R" : "L", (raw ? here : 0) + inner, $2; inner += $2; next }
        { exit 1 }
    ' "$scratch/update.manifest" >"$scratch/plan" || die 1 "$pack says nothing that this script understands"
}

check_data() {
    [ "$(slice "$pack" "$data_at" "$data_size" | digest)" = "$(fact data)" ] ||
        die $CHANGED "$pack was changed: its data is not what was signed; get it again"
    take_lists
    blocks=$scratch/lists/$name.blocks
    grep -qsx "#sha256=$target" "$blocks" || die 1 "$pack brings no list of the blocks of $name"
    grep -qx "#portion=$portion" "$blocks" || die 1 "$pack brings no list of the blocks of $name"
    sed -n 's/^P //p' "$blocks" >"$scratch/portions"
}

take_lists() {
    mkdir "$scratch/lists"
    while read -r kind place bytes expected list; do
        [ "$kind" = F ] || continue
        case $list in
        SHA256SUM | SHA256SUM.sig | "$name.blocks" | "$name.blocks.sig") ;;
        *) die 1 "$pack brings a file that no ISO has beside it: $list" ;;
        esac
        slice "$pack" "$place" "$bytes" >"$scratch/lists/$list"
        [ "$(digest <"$scratch/lists/$list")" = "$expected" ] || die $CHANGED "$pack was changed: its $list"
    done <"$scratch/plan"
}

# -- The ISO that it starts from.

find_base() {
    given=$source
    if [ -d "$source" ]; then
        source=$(findmnt -n -o SOURCE --mountpoint "$given") || source=''
        [ -b "$source" ] || die 1 "--from $given: is a folder where no ISO is mounted; name an ISO, a device or a mount"
    fi
    [ -f "$source" ] || [ -b "$source" ] || die 1 "--from $given: no such file or device"
    [ -r "$source" ] || die 1 "--from $given: $source cannot be read; are you root?"
    exec 3<"$source"
}

check_base() {
    there=$(length_of "$source")
    found=$(volume_of /dev/fd/3)
    if [ "$there" -lt "$base_size" ] || { [ -f "$source" ] && [ "$there" -ne "$base_size" ]; } ||
        [ "$(digest_of /dev/fd/3 "$base_size")" != "$base" ]; then
        die $ANOTHER "$given is another ISO than $pack starts from: it is '$found', wanted version $from with" \
            "SHA-256 $base. If it should be that, it is damaged: verify.sh --repair"
    fi
    say "base       $given is what the pack starts from"
}

# -- Where the new ISO goes.

# What a file or device is, whatever it is called.
identity() { # file
    if [ -b "$1" ]; then readlink -f -- "$1"; else find -H "$1" -maxdepth 0 -printf '%D:%i' 2>/dev/null || :; fi
}

check_output() {
    if [ -b "$output" ]; then check_device; else check_folder; fi
}

check_device() {
    result=$output
    [ -w "$output" ] || die 1 "$output cannot be written to: it is read-only, or not yours"
    [ "$(identity "$output")" != "$(identity "$source")" ] || die 1 "$output is what --from names; name another device"
    place=$(findmnt -n -o TARGET --source "$(readlink -f -- "$output")") || place=''
    [ -z "$place" ] || die 1 "$output is mounted at $place: unmount it first"
    room=$(length_of "$output")
    [ "$room" -ge "$size" ] || die 1 "no space on $output: it has $room bytes, $size are needed"
    found=$(volume_of "$output") product=$(volume_of /dev/fd/3)
    case $found in
    "${product% *} "*) return ;;
    esac
    [ -n "$overwrite" ] || is_begun ||
        die 1 "$output holds something else than an ISO of this product; if nobody needs it, say --overwrite"
}

is_begun() {
    [ "$(slice "$output" 0 128 | tr -d '\000')" = "$UNFINISHED $target" ]
}

check_folder() {
    result=$output/$name
    [ ! -e "$output" ] || [ -d "$output" ] || die 1 "$output is neither a folder nor a device"
    folder=$output
    [ -d "$output" ] || folder=$(dirname -- "$output")
    if [ ! -d "$folder" ] || [ ! -w "$folder" ]; then die 1 "$folder: no such folder, or it cannot be written to"; fi
    if [ -L "$result.part" ]; then die 1 "$result.part is a symbolic link: remove it"; fi
    if [ -f "$result" ] && [ "$(identity "$result")" = "$(identity "$source")" ]; then
        die 1 "$output holds the ISO that --from names: name another folder"
    fi
    begun=0
    [ ! -f "$result.part" ] || begun=$(length_of "$result.part")
    free=$(df -P -k -- "$folder" | awk 'NR == 2 { print $4 }')
    more=$(((size - begun) / 1024 + 1024))
    [ -e "$result" ] || [ "$more" -le "$free" ] || die 1 "no space in $output: $more KiB are needed, $free are free"
}

# What is there already has to be what the pack brings: lists of another ISO would be lost, or lie about it.
check_neighbours() {
    [ -d "$output" ] || return 0
    for file in "$scratch"/lists/*; do
        there=$output/${file##*/}
        [ ! -e "$there" ] || cmp -s "$file" "$there" || die 1 "$there is of another ISO: name another folder"
    done
    [ -e "$result" ] || return 0
    if [ ! -f "$result" ] || [ "$(digest <"$result")" != "$target" ]; then
        die 1 "$result is another ISO: name another folder"
    fi
    is_there=1
}

# -- Writing. Descriptor 3 is the old ISO, 4 the new one, so that nobody can put another file there meanwhile.

open_output() {
    if [ -b "$output" ]; then
        exec 4<>"$output"
        return
    fi
    [ -d "$output" ] || mkdir -- "$output" || die 1 "$output cannot be made"
    exec 4<>"$result.part"
    flock -n 4 || die 1 "another run writes $result.part"
    if [ "$(length_of /dev/fd/4)" -gt "$size" ]; then
        dd if=/dev/null of=/dev/fd/4 bs=1 seek="$size" count=0 2>"$scratch/said" || unwritten
    fi
}

# Sets `start`, the first portion that an earlier run did not leave as it was signed: no journal could tell as well.
find_start() {
    start=0
    if [ -b "$output" ]; then
        start=1
        is_begun || begin_device
    fi
    first=$start
    while [ "$start" -lt "$portions" ] && check_portion "$start"; do
        start=$((start + 1))
    done
    [ "$start" -eq "$first" ] || say "going on   from byte $((start * portion))"
}

# From here on it looks like no ISO: what it had is gone, and what it gets is not yet whole.
begin_device() {
    { printf '%s %s' "$UNFINISHED" "$target" && cat /dev/zero; } 2>/dev/null |
        dd of=/dev/fd/4 bs=$FIRST count=1 iflag=fullblock conv=notrunc,fsync 2>"$scratch/said" || unwritten
}

# Tells whether a portion is what was signed.
check_portion() { # number
    length=$portion
    [ $((($1 + 1) * portion)) -le "$size" ] || length=$((size - $1 * portion))
    [ "$(slice /dev/fd/4 $(($1 * portion)) "$length" | digest)" = "$(sed -n "$(($1 + 1))p" "$scratch/portions")" ]
}

unwritten() {
    die 1 "$result cannot be written: $(sed -n 's/^dd: .*: //p' "$scratch/said")"
}

# What to do for some portions: Z place bytes unpacks what L takes from; what goes on in the old ISO is one piece.
plan_of() { # first portion, one behind the last
    awk -v first="$1" -v behind="$2" '
        function tell() { if (many) printf "B %.0f %.0f\n", place, many; many = 0 }
        $1 == "P" {
            wanted = $2 >= first && $2 < behind
            if (wanted && $5 != "raw") { tell(); printf "Z %s %s\n", $3, $4 }
            next
        }
        $1 == "F" || !wanted { next }
        $1 == "B" && many && place + many == $2 { many += $3; next }
        { tell() }
        $1 == "B" { place = $2; many = $3; next }
        { print }
        END { tell() }
    ' "$scratch/plan" >"$scratch/now"
}

# Writes what a plan says, from a place on of a file.
write_plan() { # file, first byte
    into=$1 at=$2
    while read -r kind place bytes; do
        case $kind in
        Z) slice "$pack" "$place" "$bytes" | gzip -d >"$scratch/literal" || die $CHANGED "$pack cannot be unpacked" ;;
        B) put /dev/fd/3 "$place" "$bytes" ;;
        R) put "$pack" "$place" "$bytes" ;;
        L) put "$scratch/literal" "$place" "$bytes" ;;
        esac
        [ -z "$progress" ] || printf '\rwriting    %3d %%' $((at / (size / 100 + 1))) >&2
    done <"$scratch/now"
    [ -z "$progress" ] || printf '\r%20s\r' '' >&2
}

put() { # file, first byte, number
    dd if="$1" of="$into" bs=1M iflag=fullblock,skip_bytes,count_bytes oflag=seek_bytes conv=notrunc \
        skip="$2" count="$3" seek="$at" 2>"$scratch/said" || unwritten
    at=$((at + $3))
}

write_image() {
    portions=$(((size + portion - 1) / portion))
    open_output
    find_start
    plan_of "$start" "$portions"
    write_plan /dev/fd/4 $((start * portion))
    if [ -b "$output" ]; then finish_device; else finish_folder; fi
}

prove() {
    [ "$(digest_of /dev/fd/4 "$size")" = "$target" ] ||
        die $CHANGED "what was written to $result is not what was signed: can $source and $pack still be read," \
            "does $output keep what is written to it? The next run writes again what is wrong"
}

# The first portion makes it an ISO, and its descriptors are the last of it.
finish_device() {
    sync -- "$output" || die 1 "$output cannot be written"
    : >"$scratch/first"
    plan_of 0 1
    write_plan "$scratch/first" 0
    dd if="$scratch/first" of=/dev/fd/4 bs=$FIRST skip=1 seek=1 conv=notrunc,fsync 2>"$scratch/said" || unwritten
    # Before it looks like an ISO it is one but for this.
    [ "$({ cat "$scratch/first" && slice /dev/fd/4 "$at" $((size - at)); } | digest)" = "$target" ] ||
        die $CHANGED "what was written to $output is not what was signed: does it keep what is written to it?"
    dd if="$scratch/first" of=/dev/fd/4 bs=$FIRST count=1 conv=notrunc,fsync 2>"$scratch/said" || unwritten
    prove
}

# The ISO comes last: where it is, its lists are.
finish_folder() {
    prove
    sync -- "$result.part" || die 1 "$result.part cannot be written"
    for file in "$scratch"/lists/*; do
        there=$output/${file##*/}
        { cp -- "$file" "$there.part" && sync -- "$there.part" && mv -f -- "$there.part" "$there"; } ||
            die 1 "$there cannot be written"
    done
    { sync -- "$output" && mv -f -- "$result.part" "$result" && sync -- "$output"; } || die 1 "$result cannot be written"
}

key_files='' source='' pack='' output='' wanted=1 at_least='' allow_older='' overwrite='' dry_run='' quiet='' is_there=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -q | --quiet) quiet=1 ;;
    --allow-older) allow_older=1 ;;
    --overwrite) overwrite=1 ;;
    --dry-run) dry_run=1 ;;
    -k | --key | -f | --from | -n | --signatures | -v | --at-least)
        [ $# -ge 2 ] || die 1 "$1 needs a value; see --help"
        case $1 in
        -k | --key) key_files="$key_files$2
" ;;
        -f | --from) source=$2 ;;
        -v | --at-least) at_least=$2 ;;
        *) wanted=$2 ;;
        esac
        shift
        ;;
    --key=* | --from=* | --signatures=* | --at-least=*)
        option=${1%%=*} value=${1#*=}
        shift
        set -- "$option" "$value" "$@"
        continue
        ;;
    -*) die 1 "$1 is no option; see --help" ;;
    *)
        [ -z "$output" ] || die 1 "one pack makes one ISO: $1 is too much; see --help"
        if [ -z "$pack" ]; then pack=$1; else output=$1; fi
        ;;
    esac
    shift
done

need awk blockdev cmp cp cut dd df dirname find findmnt flock grep gzip head mkdir mktemp mv readlink rm sed sort sync tr
find_hasher
export LC_ALL=C
[ -n "$key_files" ] || die 1 "no key: give the public key of who makes the packs with --key FILE; see --help"
[ -n "$source" ] || die 1 "say which ISO the pack starts from, --from ISO; see --help"
[ -n "$output" ] || die 1 "say which pack, and to which folder or device; see --help"
verifier=$(dirname -- "$0")/verify.sh
[ -f "$verifier" ] || die 1 "there is no $verifier: it belongs beside this script"
progress=''
[ -n "$quiet" ] || [ ! -t 2 ] || progress=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

read_pack
read_facts
make_plan
find_base
check_output
check_data
[ -b "$output" ] || check_neighbours
check_base
if [ -n "$is_there" ]; then
    say "image      $result is what was signed; there is nothing to do"
elif [ -n "$dry_run" ]; then
    say "dry run    $result would be made; nothing was changed"
else
    write_image
    say "image      $result is version $to, what was signed"
fi
