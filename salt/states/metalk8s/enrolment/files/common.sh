#!/bin/sh
# What scripts have in common that change a machine that joins; each is sent behind it.
# shellcheck disable=SC2034  # they ask whether anything is fresh

set -eu
umask 022
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
fresh='' # not empty as soon as something changed

say() { # what changed
    fresh=1
    printf 'changed=%s\n' "$1"
}

folder() { # mode, path
    [ -d "$2" ] || {
        mkdir -p "$2"
        say "$2"
    }
    [ "$(stat -c %a:%u:%g "$2")" = "${1#0}:0:0" ] || {
        chown 0:0 "$2"
        chmod "$1" "$2"
        say "$2"
    }
}

digest() {
    sha256sum <"$1"
}

put() { # mode, path; writes what it reads, whole or not at all
    beside=${2%/*}/.${2##*/}.metalk8s
    rm -f "$beside"
    (umask 077 && cat >"$beside")
    if [ -f "$2" ] && [ ! -L "$2" ] && [ "$(stat -c %a:%u:%g "$2")" = "${1#0}:0:0" ] &&
        [ "$(digest "$2")" = "$(digest "$beside")" ]; then
        rm "$beside"
        return
    fi
    chown 0:0 "$beside"
    chmod "$1" "$beside"
    sync "$beside"
    mv -f "$beside" "$2"
    say "$2"
}
