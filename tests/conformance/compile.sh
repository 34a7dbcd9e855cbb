#!/bin/sh
# Compile Kubernetes' own end-to-end tests, and the program that their pods run, without a network.
#
# usage: compile.sh SOURCE_TREE OUTPUT_DIR
#
# SOURCE_TREE is what packages/kubernetes/prepare.sh made: the cluster is of the same. Leaves in OUTPUT_DIR, all
# static, for x86-64:
#   e2e.test   the tests (test/e2e)
#   ginkgo     runs several of them side by side
#   agnhost    what their pods run (test/images/agnhost), with porter/, which its image has too
#   images     names of images by which the tests know them, a line each: "<name in the suite> <reference>"
#
# Flags are those of packages/kubernetes/compile.sh, so that what both compile is in the cache once.
#
# Environment: GOCACHE, may be shared between builds; GOMAXPROCS, how many compilers run at the same time.

set -eu

die() {
    printf 'compile.sh: error: %s\n' "$*" >&2
    exit 1
}

step() {
    printf 'compile.sh: %s\n' "$*"
}

# The release, as Debian's archive has it: the tests compare it with that of the API server.
read_version() {
    version=$(sed -n "s/.*'tag: \\(v[0-9][^ ,']*\\).*/\\1/p" "$tree/hack/lib/version.sh" | head -n 1)
    [ -n "$version" ] || die "$tree/hack/lib/version.sh does not say which release this is"
}

link_flags() {
    printf '%s' '-s -w -buildid='
    for package in component-base client-go/pkg; do
        printf ' -X k8s.io/kubernetes/vendor/k8s.io/%s/version.gitVersion=%s' "${package}" "$version"
    done
}

enter_workspace() {
    export GOPATH="$tree/_output/local/go"
    mkdir -p "$GOPATH/src/k8s.io" "$partial"
    rm -rf "$GOPATH/src/k8s.io/kubernetes"
    ln -s "$tree" "$GOPATH/src/k8s.io/kubernetes"
    cd "$GOPATH/src/k8s.io/kubernetes"
}

# Manifests that tests read; the tree does not carry them as Go. As in hack/generate-bindata.sh.
generate_manifests() {
    go build -trimpath -o "$tree/_output/go-bindata" \
        k8s.io/kubernetes/vendor/github.com/go-bindata/go-bindata/go-bindata
    "$tree/_output/go-bindata" -nometadata -o test/e2e/generated/bindata.go -pkg generated \
        -ignore .jpg -ignore .png -ignore .md -ignore 'BUILD(\.bazel)?' \
        test/conformance/testdata/... test/e2e/testing-manifests/... test/e2e_node/testing-manifests/... \
        test/images/... test/fixtures/...
}

build() {
    go test -c -vet=off -trimpath -tags "$TAGS" -ldflags "$(link_flags)" -o "$partial/e2e.test" k8s.io/kubernetes/test/e2e
    go build -trimpath -tags "$TAGS" -ldflags "$(link_flags)" -o "$partial/" \
        k8s.io/kubernetes/test/images/agnhost k8s.io/kubernetes/vendor/github.com/onsi/ginkgo/ginkgo
    mkdir "$partial/porter"
    cp test/images/agnhost/porter/localhost.crt test/images/agnhost/porter/localhost.key "$partial/porter/"
}

# By a program of the same package, as the tests do it.
name_images() {
    mkdir "$tree/_output/names"
    cat >"$tree/_output/names/main.go" <<'END'
package main

import (
	"fmt"

	image "k8s.io/kubernetes/test/utils/image"
)

func main() {
	fmt.Println("agnhost", image.GetE2EImage(image.Agnhost))
	fmt.Println("dnsutils", image.GetE2EImage(image.JessieDnsutils))
	fmt.Println("pause", image.GetPauseImageName())
}
END
    go run -trimpath -tags "$TAGS" "$GOPATH/src/k8s.io/kubernetes/_output/names/main.go" >"$partial/images"
}

check() {
    for program in e2e.test agnhost ginkgo; do
        [ -x "$partial/$program" ] || die "$program was not built"
        if readelf --wide --program-headers "$partial/$program" | grep -q -w INTERP; then
            die "$program is not static"
        fi
    done
}

[ $# -eq 2 ] || die "usage: compile.sh SOURCE_TREE OUTPUT_DIR"
[ -f "$1/test/e2e/e2e_test.go" ] || die "$1 is not a Kubernetes source tree"
tree=$(cd "$1" && pwd -P)
output=$(cd "$(dirname "$2")" && pwd -P)/$(basename "$2")
partial=$output.partial

TAGS=selinux,notest,nokmem
umask 022
export LC_ALL=C TZ=UTC
export GOENV=off GOFLAGS='' GO111MODULE=off GOPROXY=off GOTOOLCHAIN=local
export GOOS=linux GOARCH=amd64 GOAMD64=v1 CGO_ENABLED=0
export HOME="$tree/_output" GOCACHE="${GOCACHE:-$tree/_output/gocache}"
mkdir -p "$HOME" "$GOCACHE"

read_version
rm -rf "$partial"
enter_workspace
step "1/3 the manifests of the tests of $version"
generate_manifests
step "2/3 compile: e2e.test agnhost ginkgo"
build
step "3/3 names of images"
name_images
check
cd "$tree"
rm -rf "$output"
mv "$partial" "$output"
step "done: $output"
