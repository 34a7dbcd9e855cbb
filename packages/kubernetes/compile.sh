#!/bin/sh
# Compile Kubernetes out of an unpacked and patched source tree, without a network.
#
# usage: compile.sh SOURCE_TREE OUTPUT_DIR
#
# Leaves in OUTPUT_DIR, all static, for x86-64:
#   kubelet kubectl kubeadm kube-apiserver kube-controller-manager kube-scheduler kube-proxy pause
# and the licences of all that is linked into them:
#   licenses/LICENSE licenses/THIRD-PARTY-LICENSES
#
# Same tree and same toolchain give the same bytes, whatever the path of the tree, the time or the user.
#
# Environment:
#   SOURCE_DATE_EPOCH  build date that `--version` shows (default: date of the tree's Makefile, which is
#                      the date of the upstream release)
#   GOCACHE            Go build cache, may be shared between builds (default: SOURCE_TREE/_output/gocache)
#   GOMAXPROCS         how many compilers run at the same time (default: one per processor)
#
# Needs: go (1.18 to 1.23), gcc with the static C library, binutils, make, bash, rsync, findutils.
# Writes below SOURCE_TREE/_output and SOURCE_TREE/.make, and to the generated OpenAPI files of the tree.
# OUTPUT_DIR appears whole, or not at all; one that exists is replaced. It is renamed into place, so it
# must not itself be a mount point.

set -eu

# Everything the seven commands are called, in the order in which they are reported.
COMMANDS="kubelet kubectl kubeadm kube-apiserver kube-controller-manager kube-scheduler kube-proxy"

# What the version says of our patches and Debian's, as build metadata: each change of them counts it up, and the
# release of the packages with it. Tags of images cannot hold it.
OURS=+metalk8s.1

# The two packages that carry a copy of the version; both are read, by different commands.
VERSION_PACKAGES="k8s.io/kubernetes/vendor/k8s.io/component-base/version
k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version"

# Texts of the two variants of vendor/github.com/opencontainers/runc/libcontainer/cgroups/fs/kmem*.go.
KMEM_LEFT_OUT="kernel memory accounting disabled in this runc build"
KMEM_PRESENT="kernel memory accounting not supported by this kernel"

separator=------------------------------------------------------------------------

die() {
    printf 'compile.sh: error: %s\n' "$*" >&2
    exit 1
}

step() {
    printf 'compile.sh: %s\n' "$*"
}

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || die "'$tool' is not installed"
    done
}

check_go() {
    release=$(go env GOVERSION) || die "'go env GOVERSION' failed"
    minor=${release#go1.}
    minor=${minor%%[!0-9]*}
    # The patched vendor/github.com/modern-go/reflect2 knows the map iterator of these releases only.
    if [ "${minor:-0}" -lt 18 ] || [ "$minor" -gt 23 ]; then
        die "$release does not fit: Go 1.18 to 1.23 is needed"
    fi
}

# What `git archive` wrote into hack/lib/version.sh upstream: $1 is a sed expression that prints one value.
archived() {
    sed -n "$1" "$tree/hack/lib/version.sh" | head -n 1
}

read_version() {
    version=$(archived "s/.*'tag: \\(v[0-9][^ ,']*\\).*/\\1/p")
    commit=$(archived "s/.*KUBE_GIT_COMMIT='\\([0-9a-f]\\{40\\}\\)'.*/\\1/p")
    if [ -z "$version" ] || [ -z "$commit" ]; then
        die "$tree/hack/lib/version.sh does not say which release this is; is it an exported source tree?"
    fi
    major=${version#v}
    minor=${major#*.}
    major=${major%%.*}
    minor=${minor%%.*}
    version=$version$OURS
}

link_flags() {
    printf '%s' '-s -w -buildid='
    for package in $VERSION_PACKAGES; do
        printf ' -X %s.%s=%s' \
            "$package" gitVersion "$version" \
            "$package" gitMajor "$major" \
            "$package" gitMinor "$minor" \
            "$package" gitCommit "$commit" \
            "$package" gitTreeState archive \
            "$package" buildDate "$build_date"
    done
}

# The API server links definitions that the source tree does not carry: only the Makefile can make them.
generate_openapi() {
    make -C "$tree" --no-print-directory gen_openapi
    [ -s "$tree/pkg/generated/openapi/zz_generated.openapi.go" ] || die "'make gen_openapi' left no definitions"
}

# Our own `go build` rather than `make all`: the Makefile hands the path of the tree to the compiler, which
# then ends in the identity of every object and keeps a shared GOCACHE from being any use at another path.
# Tags: `selinux` and `notest` are what upstream's release sets, `nokmem` is ours.
build_commands() {
    workspace=$tree/_output/local/go
    mkdir -p "$workspace/src/k8s.io"
    rm -rf "$workspace/src/k8s.io/kubernetes"
    ln -s "$tree" "$workspace/src/k8s.io/kubernetes"
    cd "$workspace/src/k8s.io/kubernetes"

    packages=
    for command in $COMMANDS; do
        packages="$packages k8s.io/kubernetes/cmd/$command"
    done
    # shellcheck disable=SC2086  # a list of packages
    GOPATH=$workspace go build -trimpath -tags selinux,notest,nokmem -ldflags "$(link_flags)" -o "$partial/" $packages
    cd "$tree"
}

build_pause() {
    tag=$(sed -n 's/^TAG *= *//p' "$tree/build/pause/Makefile")
    [ -n "$tag" ] || die "build/pause/Makefile does not say the version of pause"
    gcc -static -Os -s -Wall -Werror -Wl,--build-id=none -DVERSION="v$tag" \
        -o "$partial/pause" "$tree/build/pause/linux/pause.c"
}

collect_licenses() {
    mkdir "$partial/licenses"
    cp "$tree/LICENSE" "$partial/licenses/LICENSE"
    (
        cd "$tree/LICENSES"
        find vendor -type f ! -name OWNERS | sort | while read -r file; do
            printf '%s\n%s\n%s\n\n' "$separator" "${file%/*}" "$separator"
            cat "$file"
            printf '\n'
        done
    ) >"$partial/licenses/THIRD-PARTY-LICENSES"
    [ -s "$partial/licenses/THIRD-PARTY-LICENSES" ] || die "$tree/LICENSES holds no licence"
}

check_outputs() {
    for command in $COMMANDS pause; do
        [ -x "$partial/$command" ] || die "$command was not built"
        if readelf --wide --program-headers "$partial/$command" | grep -q -w INTERP; then
            die "$command is not static"
        fi
    done
    said=$("$partial/kubelet" --version)
    [ "$said" = "Kubernetes $version" ] || die "kubelet calls itself '$said', expected 'Kubernetes $version'"
    if grep -q -F "$KMEM_PRESENT" "$partial/kubelet" || ! grep -q -F "$KMEM_LEFT_OUT" "$partial/kubelet"; then
        die "kubelet was built with kernel-memory accounting: build tag 'nokmem' had no effect"
    fi
    if grep -q -r -F -e "$tree/cmd/kube" -e "$tree/_output" "$partial"; then
        die "a binary contains the path of the source tree ($tree)"
    fi
}

publish() {
    if [ -e "$output" ]; then
        rm -rf "$output.replaced"
        mv "$output" "$output.replaced"
    fi
    mv "$partial" "$output"
    rm -rf "$output.replaced"
}

[ $# -eq 2 ] || die "usage: compile.sh SOURCE_TREE OUTPUT_DIR"
need go gcc readelf make bash rsync find sed grep date
[ -f "$1/cmd/kubelet/kubelet.go" ] || die "$1 is not a Kubernetes source tree"
tree=$(cd "$1" && pwd -P)
mkdir -p "$(dirname "$2")"
output=$(cd "$(dirname "$2")" && pwd -P)/$(basename "$2")
partial=$output.partial

# No setting of the caller may change the bytes.
umask 022
export LC_ALL=C TZ=UTC
export GOENV=off GOFLAGS='' GO111MODULE=off GOPROXY=off GOTOOLCHAIN=local
export GOOS=linux GOARCH=amd64 GOAMD64=v1 CGO_ENABLED=0
unset GOROOT GOBIN GOEXPERIMENT CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS
# Any user may build, also one without a home.
export HOME="$tree/_output" GOCACHE="${GOCACHE:-$tree/_output/gocache}"
mkdir -p "$GOCACHE" "$HOME"

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$tree/Makefile")}
export SOURCE_DATE_EPOCH
build_date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ) ||
    die "SOURCE_DATE_EPOCH is not a number of seconds: $SOURCE_DATE_EPOCH"

check_go
read_version
rm -rf "$partial"
trap 'rm -rf "$partial"' EXIT
mkdir "$partial"

step "1/5 generate the OpenAPI definitions of $version"
generate_openapi
step "2/5 compile: $COMMANDS"
build_commands
step "3/5 compile: pause"
build_pause
step "4/5 collect licences"
collect_licenses
step "5/5 check: static, version, kernel-memory accounting left out"
check_outputs
publish
step "done: $output"
