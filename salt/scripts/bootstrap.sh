#!/bin/sh
# Make this machine the first of a cluster, from this medium alone: verify it, check the machine, install.
#
# Here is only what has to come before anything on the medium may be trusted and before there is a Python to
# run the rest in: metalk8s_bootstrap, beside this script.
#
# This script is on the medium, too: it runs as root before anything is verified, and a stranger's would say that all
# is well. So the ISO has to be verified before it is mounted, with nothing of ours: docs, verify-a-medium. What is
# verified here is for accidents between then and now, and for the order of versions.

set -eu

usage() {
    cat <<'END'
usage: bootstrap.sh [--check] [--key FILE] [options]

Makes this machine the first of a cluster, as /etc/metalk8s/bootstrap.yaml says (bootstrap.example.yaml beside
this script is one). First the medium is verified, then the configuration and the machine are checked; nothing
is changed before all of that is fine. Run it again after a failure: it goes on. Everything it does is in
/var/log/metalk8s/bootstrap.log.

Verify the ISO before you mount it: a medium of somebody else has a bootstrap.sh of somebody else.
    gpgv --keyring ./KEY.gpg SHA256SUM.sig SHA256SUM && sha256sum --check SHA256SUM

      --check           only verify and check; change nothing
  -k, --key FILE        public key that the medium has to be signed with. It has to come to you another way
                        than the medium. Several may be given. Without it: all files in /etc/metalk8s/keys
  -n, --signatures N    ask for valid signatures by N different keys (default: 1)
      --at-least V      refuse a medium that is older than version V. Always refused is one that is older than
                        the newest that was installed here, which /etc/metalk8s/keys/at-least names
      --allow-older     go on with one that is older than that
      --insecure-without-signature
                        go on with a medium that anybody may have made
  -v, --verbose         show the log while it grows
  -h, --help            this text

exit status:
  0       all is well
  1       it could not begin (usage, a missing program)
  10-15   the medium is not what was signed, as verify.sh says it
  20      the machine: not root, another operating system or processor
  21      the configuration: a mistake in the file
  22      its networks
  23      its name
  24      too few processors, too little memory or disk
  25      something is in the way: a port, a package, another installation
  26      settings: swap, kernel, clock
  27      the archives
  30      another run is at it
  31      a step failed
When several of 20 to 27 apply, the lowest becomes the exit status; all problems are printed.
END
}

KEYS=/etc/metalk8s/keys
# Beside them: the newest version that was installed here.
FLOOR=$KEYS/at-least
# The oldest Python that runs the checks.
MAJOR=3 MINOR=9

die() { # status, sentence, remedy
    printf 'bootstrap.sh: error: %s\n' "$2" >&2
    [ -z "${3:-}" ] || printf '    %s\n' "$3" >&2
    exit "$1"
}

# Whoever gives no key has put one where this looks.
add_keys() {
    for file in "$KEYS"/*; do
        [ "$file" = "$FLOOR" ] || [ ! -f "$file" ] || verification="$verification--key
$file
"
    done
}

# Sets `at_least` to what the medium has to be at least: what was asked for, or what was here, whichever is newer.
find_floor() {
    if [ -n "$allow_older" ] || [ ! -e "$FLOOR" ]; then return; fi
    floor=$(cat "$FLOOR") || die 1 "$FLOOR cannot be read"
    case $floor in
    '' | *[!0-9A-Za-z.-]*) die 1 "$FLOOR does not hold a version" \
        "Write the newest version that was installed here into it." ;;
    esac
    # As verify.sh compares them: 2.4.0-dev comes before 2.4.0.
    at_least=$(printf '%s\n' "$floor" "$at_least" | sed 's/-/~/' | sort -V | tail -n 1 | sed 's/~/-/')
}

verify() {
    case $verification in
    *--key* | *--insecure*) ;;
    *) add_keys ;;
    esac
    case $verification in
    *--key* | *--insecure*) ;;
    *) die 11 "no key to verify the medium with" \
        "Give the public key of who makes the media with --key FILE, or put it into $KEYS." ;;
    esac
    find_floor
    began=$(date +%s)
    status=0
    # shellcheck disable=SC2086  # one argument a line
    (IFS='
' && set -f && exec sh "$root/verify.sh" --quiet $verification ${at_least:+"--at-least=$at_least"} "$root") || status=$?
    [ "$status" -ne 15 ] || die 15 "the medium at $root is too old; nothing was changed" \
        "A newer one was installed here, or asked for. To go back knowingly: --allow-older."
    [ "$status" -eq 0 ] || die "$status" "the medium at $root cannot be trusted; nothing was changed" \
        "Get it again, with its key by another way; docs/how-to/verify-a-medium.md, on every medium, says how."
    verified=$(($(date +%s) - began))
}

# Sets `python` to one of the machine, or of the medium.
find_python() {
    for python in python3.11 python3 /usr/libexec/platform-python; do
        if "$python" -I -c "import sys; sys.exit(sys.version_info < ($MAJOR, $MINOR))" 2>/dev/null; then
            return
        fi
    done
    python=$scratch/usr/bin/python3.11
    for package in python3.11 libpython3.11-stdlib python3.11-minimal libpython3.11-minimal libexpat1 \
        python3.11-libs mpdecimal expat; do
        unpack "$package" '' || :
    done
    PYTHONHOME=$scratch/usr LD_LIBRARY_PATH=$scratch/usr/lib/x86_64-linux-gnu:$scratch/lib/x86_64-linux-gnu:$scratch/usr/lib64
    export PYTHONHOME LD_LIBRARY_PATH
    "$python" -c '' 2>/dev/null ||
        die 20 "this machine has no Python $MAJOR.$MINOR, and the medium has none that runs here" \
            "Install the package python3.11 of the operating system."
}

# Unpacks, into the scratch folder, what of a package of the medium is below a folder.
unpack() { # package, folder
    found=$(find "$root/packages" -name "$1[_-][0-9]*$suffix" | grep "$release" | head -n 1)
    [ -n "$found" ] || return 1
    case $suffix in
    .deb) dpkg-deb --fsys-tarfile "$found" ;;
    *) rpm2archive - <"$found" | gzip -d ;;
    esac | tar -x -C "$scratch" "./$2" 2>/dev/null
}

verification='' check='' verbose='' at_least='' allow_older=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -v | --verbose) verbose=--verbose ;;
    --check) check=--check ;;
    --allow-older) allow_older=1 ;;
    --insecure-without-signature)
        verification="$verification$1
"
        ;;
    --at-least)
        [ $# -ge 2 ] || die 1 "$1 needs a value; see --help"
        at_least=$2
        shift
        ;;
    -k | --key | -n | --signatures)
        [ $# -ge 2 ] || die 1 "$1 needs a value; see --help"
        [ "$1" != -k ] && [ "$1" != --key ] || [ -f "$2" ] || die 1 "$1 $2: no such file"
        verification="$verification$1
$2
"
        shift
        ;;
    --key=* | --signatures=* | --at-least=*)
        option=${1%%=*} value=${1#*=}
        shift
        set -- "$option" "$value" "$@"
        continue
        ;;
    *) die 1 "$1 is no option; see --help" ;;
    esac
    shift
done

export LC_ALL=C
# A root that came by `su` may be without the folders of administrators' programs.
PATH=$PATH:/usr/sbin:/sbin
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
# Others need not be told by a check of the machine itself: they could not even read what it looks at.
[ "$(id -u)" -eq 0 ] || die 20 "runs as user $(id -u), not as root" "Run it as root, for example with sudo."
verify

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck disable=SC1091  # of the machine
system=$(. /etc/os-release && printf '%s %s\n' "$ID" "${VERSION_ID%%.*}") || system=unknown
case $system in
debian*) suffix=.deb release=debian ;;
*) suffix=.rpm release=el${system##* } ;;
esac
find_python
unpack metalk8s-salt opt/metalk8s/salt/lib/python3.11/site-packages/yaml ||
    die 20 "there are no packages for this operating system ($system) on the medium" \
        "Install Debian 12, or EL 8 or 9."
mkdir "$scratch/library"
mv "$scratch/opt/metalk8s/salt/lib/python3.11/site-packages/yaml" "$scratch/library/"

trap - EXIT
unset PYTHONSTARTUP
export PYTHONPATH="$scratch/library:$root" PYTHONDONTWRITEBYTECODE=1
IFS='
'
set -f
# shellcheck disable=SC2086  # one argument a line, or none
exec "$python" -s -m metalk8s_bootstrap --medium "$root" --scratch "$scratch" --verified "$verified" \
    $check $verbose -- $verification
