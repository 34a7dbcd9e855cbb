#!/bin/sh
# Compile the CNI project's plugins out of the tree that prepare.sh made, without a network.
#
# usage: compile.sh TREE OUTPUT_DIR
#
# Leaves in OUTPUT_DIR, all static, for x86-64, the plugins that upstream's releases have, and the licences of
# all that is linked into them:
#   licenses/{LICENSE,THIRD-PARTY-LICENSES}
#
# golang.sh (beside this script) tells what the environment may say and how the result comes about.
# Needs: go (1.19 or newer), binutils, awk, findutils, grep, sed.

set -eu

# By folder of the sources.
PLUGINS="ipam/dhcp ipam/host-local ipam/static
main/bridge main/host-device main/ipvlan main/loopback main/macvlan main/ptp main/vlan
meta/bandwidth meta/firewall meta/portmap meta/sbr meta/tuning meta/vrf"

TAGS=osusergo,netgo

# shellcheck source=packages/golang/golang.sh
. "$(dirname -- "$0")/golang.sh"

check_complete() {
    find "$tree/src/$import_path/plugins" -mindepth 2 -maxdepth 2 -type d ! -name windows | sort >"$tools/found"
    for plugin in $PLUGINS; do
        printf '%s\n' "$tree/src/$import_path/plugins/$plugin"
    done | sort | cmp -s - "$tools/found" || die "the sources have other plugins than are to be compiled"
}

check() {
    for plugin in $PLUGINS; do
        name=${plugin#*/}
        check_programs "$name"
        # Without a command in the environment a plugin says what it is.
        said=$(env -u CNI_COMMAND "$partial/$name" 2>&1 | head -n 1)
        expected="CNI $name plugin v$version"
        [ "$said" = "$expected" ] || die "$name calls itself '$said', expected '$expected'"
    done
}

[ $# -eq 2 ] || die "usage: compile.sh TREE OUTPUT_DIR"
open_tree "$1" "$2"
packages=
for plugin in $PLUGINS; do
    packages="$packages $import_path/plugins/$plugin"
done

step "1/3 compile the plugins"
check_complete
# shellcheck disable=SC2086  # a list of packages
go_build "$partial" "$TAGS" "-X $import_path/pkg/utils/buildversion.BuildVersion=v$version" $packages
step "2/3 collect licences"
# shellcheck disable=SC2086  # a list of packages
collect_licenses "$TAGS" $packages
step "3/3 check: static, version"
check
publish
step "done: $output"
