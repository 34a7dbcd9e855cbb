#!/bin/sh
# Compile runc out of the tree that prepare.sh made, without a network.
#
# usage: compile.sh TREE OUTPUT_DIR
#
# Leaves in OUTPUT_DIR, static, for x86-64:
#   runc
# its manual pages and completion of commands, and the licences of all that is linked into it:
#   man/ completions/runc licenses/{LICENSE,NOTICE,THIRD-PARTY-LICENSES}
#
# golang.sh (beside this script) tells what the environment may say and how the result comes about.
# Needs: go (1.19 to 1.21), gcc, the static libraries of C and of libseccomp, pkg-config, binutils, awk,
# findutils, grep, sed.

set -eu

# `seccomp` is what upstream's release sets; AppArmor and SELinux are found at run time, no tag is needed.
TAGS=seccomp,osusergo,netgo,urfave_cli_no_docs

# Limits of kernel memory leak memory on the kernels of CentOS and RHEL 7. runc has left them out since 1.0.0;
# these are the file that older ones wrote, their functions, and one that must be there for comparison.
KMEM_FILE=memory.kmem.limit_in_bytes
KMEM_FUNCTIONS="EnableKernelMemoryAccounting setKernelMemory"
MEMORY_FUNCTION="libcontainer/cgroups/fs.(*MemoryGroup).Set"

# shellcheck source=packages/golang/golang.sh
. "$(dirname -- "$0")/golang.sh"

check_go() {
    release=$(go env GOVERSION) || die "'go env GOVERSION' failed"
    minor=${release#go1.}
    minor=${minor%%[!0-9]*}
    # This runc forks in C before Go starts, which Go 1.22 and newer do not survive with every C library.
    if [ "${minor:-0}" -lt 19 ] || [ "$minor" -gt 21 ]; then
        die "$release does not fit: Go 1.19 to 1.21 is needed"
    fi
}

make_man_pages() {
    go_build "$tools" "$TAGS" "" github.com/cpuguy83/go-md2man/v2
    mkdir "$partial/man"
    for page in "$sources"/man/*.8.md; do
        name=$(basename "$page" .md)
        "$tools/v2" -in "$page" -out "$partial/man/$name"
    done
}

# Its C part runs as root, before the container is closed. The linker warns of parts of the C library that
# would load others at run time.
build_runc() {
    export CGO_ENABLED=1 CC=gcc CGO_CFLAGS='-O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2'
    unset CGO_CPPFLAGS CGO_LDFLAGS PKG_CONFIG PKG_CONFIG_PATH
    go_build "$partial" "$TAGS" "-X main.version=$version -X main.gitCommit=$origin -linkmode external
        -extldflags '-static -Wl,--build-id=none -Wl,--fatal-warnings'" "$import_path"
}

# First of the given files that is there: Debian and EL keep licences in different places.
first_of() {
    for file in "$@"; do
        if [ -f "$file" ]; then
            printf '%s\n' "$file"
            return
        fi
    done
    die "there is none of $*"
}

# Of the C libraries. Their licence asks for its full text, and for what it takes to link runc with other
# versions of them: that is the source package.
collect_c_licenses() {
    glibc=$(first_of /usr/share/doc/libc6-dev/copyright /usr/share/licenses/glibc/LICENSES)
    libseccomp=$(first_of /usr/share/doc/libseccomp-dev/copyright /usr/share/licenses/libseccomp/LICENSE)
    lgpl=$(first_of /usr/share/common-licenses/LGPL-2.1 /usr/share/licenses/glibc/COPYING.LIB)
    {
        section "GNU C library" "$glibc"
        section libseccomp "$libseccomp"
        section LGPL-2.1 "$lgpl"
    } >>"$partial/licenses/THIRD-PARTY-LICENSES"
}

check() {
    check_programs runc
    said=$("$partial/runc" --version)
    case $said in
    "runc version $version
commit: $origin
"*"
libseccomp: "[1-9]*) ;;
    *) die "runc calls itself '$said', expected version $version, commit $origin and a version of libseccomp" ;;
    esac
    features=$("$partial/runc" features | tr -d ' \t\n')
    for feature in apparmor seccomp selinux; do
        case $features in
        *"\"$feature\":{\"enabled\":true"*) ;;
        *) die "runc was built without $feature: $features" ;;
        esac
    done
    # The names of functions stay in a stripped Go program.
    grep -q -F "$MEMORY_FUNCTION" "$partial/runc" || die "runc has no function $MEMORY_FUNCTION"
    for text in "$KMEM_FILE" $KMEM_FUNCTIONS; do
        if grep -q -F "$text" "$partial/runc"; then
            die "runc was built with kernel-memory accounting: it contains $text"
        fi
    done
}

[ $# -eq 2 ] || die "usage: compile.sh TREE OUTPUT_DIR"
need gcc pkg-config
open_tree "$1" "$2"
check_go
sources=$tree/src/$import_path

step "1/4 make manual pages"
make_man_pages
mkdir "$partial/completions"
# It is read by a shell, not started.
sed '1{/^#!/d}' "$sources/contrib/completions/bash/runc" >"$partial/completions/runc"
step "2/4 compile: runc"
build_runc
step "3/4 collect licences"
collect_licenses "$TAGS" "$import_path"
collect_c_licenses
cp "$sources/NOTICE" "$partial/licenses/NOTICE"
step "4/4 check: static, version, seccomp, kernel-memory accounting left out"
check
publish
step "done: $output"
