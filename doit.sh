#!/bin/sh
# The entry of the build chain: makes or refreshes the virtual environment, loads .env, runs doit.
#
#   ./doit.sh setup iso    build the ISO on a fresh machine
#   ./doit.sh list         what else there is
#
# PYTHON names the interpreter to make the environment with (default: the first python3 of PATH).

set -eu
# Modes of files are part of what is built, the caller's umask is not.
umask 022

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
venv=$root/.venv
lock=$root/requirements.txt
stamp=$venv/installed

say() {
    printf '    %s\n' "$*" >&2
}

die() {
    printf 'doit.sh: error: %s\n  What to do: %s\n' "$1" "$2" >&2
    exit 2
}

# The one thing that setup cannot install from inside Python.
install_python() {
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 ||
            die "Python 3.11 with venv is missing and installing it needs root" "run ./doit.sh setup as root once."
        as_root=sudo
    fi
    command -v apt-get >/dev/null 2>&1 ||
        die "Python 3.11 with venv is missing" "install it, then run this again."
    say "installing python3 and python3-venv"
    if ! { $as_root apt-get -q update &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
            python3 python3-venv; } >&2; then
        die "python3 and python3-venv cannot be installed" "check the network and the machine's APT sources."
    fi
}

has_python() {
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    python=${PYTHON:-python3}
    has_python && return
    python=/usr/bin/python3
    has_python && return
    for word in "$@"; do
        if [ "$word" = setup ]; then
            install_python
            has_python && return
        fi
    done
    die "no Python 3.11 or newer with venv" "run ./doit.sh setup, or install python3-venv, or set PYTHON."
}

# Made beside and stamped last: an interrupted run is no environment and is made again.
make_environment() {
    find_python "$@"
    say "making the Python environment in $venv"
    rm -rf "$venv"
    "$python" -m venv "$venv" || die "the Python environment cannot be made" "see above."
    # The lock names everything; pip would look for newer versions of what is asked for with extras.
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check install \
        --no-deps --require-hashes --requirement "$lock" >&2 ||
        die "the Python packages of requirements.txt cannot be installed" \
            "check the network and pip's configuration, then run this again."
    # Ours, and without dependencies: nothing to verify and nothing to fetch.
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check install \
        --no-deps --no-index --no-build-isolation --editable "$root/static-container-registry" >&2 ||
        die "static-container-registry cannot be installed" "see above."
    cp "$lock" "$stamp"
}

# What .env sets. In a process of its own: whatever its lines do, this goes on and can say so.
settings_of() {
    sh -n "$1" && (
        set -a
        # shellcheck source=/dev/null
        . "$1" >&2
        export -p
    )
}

# The environment wins: a variable that is set for one run is meant for that run.
load_settings() {
    [ -f "$1" ] || die "$1 is no file" "make it one; .env.example shows how."
    environment=$(export -p)
    if ! settings=$(settings_of "$1") || [ -z "$settings" ]; then
        die "$1 is no shell file of settings" "correct what is told above; .env.example shows how."
    fi
    eval "$settings"
    eval "$environment"
}

if [ -e "$root/.env" ] || [ -L "$root/.env" ]; then
    load_settings "$root/.env"
fi

if ! cmp -s "$lock" "$stamp" || ! [ -x "$venv/bin/python" ]; then
    make_environment "$@"
fi

# What is named on the command line is named from where this was called.
export CALLED_FROM="$PWD"
cd "$root"
exec "$venv/bin/python" -m buildchain "$@"
