#!/bin/sh
# Compile etcd out of the tree that prepare.sh made, without a network.
#
# usage: compile.sh TREE OUTPUT_DIR
#
# Leaves in OUTPUT_DIR, both static, for x86-64:
#   etcd etcdctl
# and the licences of all that is linked into them:
#   licenses/{LICENSE,NOTICE,THIRD-PARTY-LICENSES}
#
# golang.sh (beside this script) tells what the environment may say and how the result comes about.
# Needs: go (1.19 or newer), binutils, awk, findutils, grep, sed.

set -eu

# The last one leaves out a maker of manual pages that nothing calls.
TAGS=osusergo,netgo,urfave_cli_no_docs

# shellcheck source=packages/golang/golang.sh
. "$(dirname -- "$0")/golang.sh"

check() {
    check_programs etcd etcdctl
    said=$("$partial/etcd" --version | head -n 2 | tr '\n' ' ')
    expected="etcd Version: $version Git SHA: $origin "
    [ "$said" = "$expected" ] || die "etcd calls itself '$said', expected '$expected'"
    said=$("$partial/etcdctl" version | head -n 1)
    [ "$said" = "etcdctl version: $version" ] || die "etcdctl calls itself '$said', expected version $version"
}

[ $# -eq 2 ] || die "usage: compile.sh TREE OUTPUT_DIR"
open_tree "$1" "$2"

step "1/3 compile: etcd etcdctl"
go_build "$partial" "$TAGS" "-X $import_path/version.GitSHA=$origin" "$import_path" "$import_path/etcdctl"
step "2/3 collect licences"
collect_licenses "$TAGS" "$import_path" "$import_path/etcdctl"
cp "$tree/src/$import_path/NOTICE" "$partial/licenses/NOTICE"
step "3/3 check: static, version"
check
publish
step "done: $output"
