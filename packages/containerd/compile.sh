#!/bin/sh
# Compile containerd out of the tree that prepare.sh made, without a network.
#
# usage: compile.sh TREE OUTPUT_DIR
#
# Leaves in OUTPUT_DIR, all static, for x86-64:
#   containerd containerd-shim-runc-v2 ctr
# their manual pages and completion of commands, and the licences of all that is linked into them:
#   man/ completions/ctr licenses/{LICENSE,NOTICE,THIRD-PARTY-LICENSES}
#
# golang.sh (beside this script) tells what the environment may say and how the result comes about.
# Needs: go (1.19 or newer), binutils, awk, findutils, grep, sed.

set -eu

# The shims of older kinds of runtimes are for containers that containerd 1.2 and 1.3 started.
COMMANDS="containerd containerd-shim-runc-v2 ctr"

# btrfs needs cgo, so it would not be static; aufs and zfs are in no kernel of the supported systems; devmapper
# does nothing without a pool of its own. AppArmor, seccomp and SELinux are found at run time, no tag is needed.
TAGS=static_build,osusergo,netgo,no_aufs,no_btrfs,no_devmapper,no_zfs

# shellcheck source=packages/golang/golang.sh
. "$(dirname -- "$0")/golang.sh"

# What the program says of itself lacks the head of a manual page. $1: command, $2: what it is
man_page() {
    "$tools/gen-manpages" "$1.8" "$tools"
    sed "s/^\\.TH .*/.TH $1 8\\n.SH NAME\\n$1 \\\\- $2\\n.SH DESCRIPTION/" "$tools/$1.8" >"$partial/man/$1.8"
}

make_man_pages() {
    go_build "$tools" "$TAGS" "$variables" "$import_path/cmd/gen-manpages" github.com/cpuguy83/go-md2man/v2
    mkdir "$partial/man"
    man_page containerd "container engine"
    man_page ctr "client of containerd, to look into it"
    for page in containerd-config.8 containerd-config.toml.5; do
        "$tools/v2" -in "$sources/docs/man/$page.md" -out "$partial/man/$page"
    done
}

check() {
    # shellcheck disable=SC2086  # a list of programs
    check_programs $COMMANDS
    said=$("$partial/containerd" --version)
    expected="containerd $import_path v$version $origin"
    [ "$said" = "$expected" ] || die "containerd calls itself '$said', expected '$expected'"
    said=$("$partial/containerd" config default)
    case $said in
    *'[plugins."io.containerd.grpc.v1.cri"]'*) ;;
    *) die "containerd was built without the interface that kubelet uses" ;;
    esac
}

[ $# -eq 2 ] || die "usage: compile.sh TREE OUTPUT_DIR"
open_tree "$1" "$2"
sources=$tree/src/$import_path
variables="-X $import_path/version.Version=v$version -X $import_path/version.Revision=$origin"
packages=
for command in $COMMANDS; do
    packages="$packages $import_path/cmd/$command"
done

step "1/4 compile: $COMMANDS"
# shellcheck disable=SC2086  # a list of packages
go_build "$partial" "$TAGS" "$variables" $packages
step "2/4 make manual pages"
make_man_pages
mkdir "$partial/completions"
# It is read by a shell, not started.
sed '1{/^#!/d}' "$sources/contrib/autocomplete/ctr" >"$partial/completions/ctr"
step "3/4 collect licences"
# shellcheck disable=SC2086  # a list of packages
collect_licenses "$TAGS" $packages
cp "$sources/NOTICE" "$partial/licenses/NOTICE"
step "4/4 check: static, version, interface of kubelet"
check
publish
step "done: $output"
