# shellcheck shell=sh
# Functions for the compile.sh of packages that prepare.sh (beside this file) made the tree of. Sourced, not run.
#
# Same tree and same toolchain give the same bytes, whatever the path of the tree, the time or the user.
#
# After `open_tree TREE OUTPUT_DIR` there are
#   $tree         absolute path of the tree, which is the GOPATH
#   $import_path  of the sources in it
#   $origin       Debian's version of them
#   $version      upstream's
#   $partial      what `publish` makes OUTPUT_DIR of: that appears whole, or not at all; one that exists is
#                 replaced. It is renamed into place, so it must not itself be a mount point.
#   $tools        scratch folder, for programs that are only needed to compile
#
# Environment:
#   GOCACHE     Go build cache, may be shared between builds and packages (default: TREE/gocache)
#   GOMAXPROCS  how many compilers run at the same time (default: one per processor)

separator=------------------------------------------------------------------------
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)

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

# $1: tree, $2: output
open_tree() {
    need go readelf awk find grep sed sort
    if [ ! -d "$1/src" ] || [ ! -f "$1/debian/control" ]; then
        die "$1 was not made by prepare.sh"
    fi
    tree=$(cd "$1" && pwd -P)
    mkdir -p "$(dirname "$2")"
    output=$(cd "$(dirname "$2")" && pwd -P)/$(basename "$2")
    partial=$output.partial
    tools=$output.tools
    import_path=$(sed -n 's/^XS-Go-Import-Path: *\([^, ]*\).*/\1/p' "$tree/debian/control")
    origin=$(sed -n '1s/^[^ ]* (\([^)]*\)).*/\1/p' "$tree/debian/changelog")
    # Debian repacks what upstream released, without the libraries, and says so with a suffix.
    version=$(printf '%s\n' "${origin%-*}" | sed 's/[+~]ds[0-9.]*$//')
    if [ -z "$import_path" ] || [ -z "$version" ]; then
        die "$tree/debian does not say what the sources are"
    fi

    # No setting of the caller may change the bytes. Any user may build, also one without a home.
    umask 022
    export LC_ALL=C TZ=UTC HOME="$tools"
    export GOENV=off GOFLAGS='' GO111MODULE=off GOPROXY=off GOTOOLCHAIN=local
    export GOOS=linux GOARCH=amd64 GOAMD64=v1 CGO_ENABLED=0
    export GOPATH="$tree" GOCACHE="${GOCACHE:-$tree/gocache}"
    unset GOROOT GOBIN GOEXPERIMENT CFLAGS CPPFLAGS LDFLAGS
    rm -rf "$partial" "$tools"
    trap 'rm -rf "$partial" "$tools"' EXIT
    mkdir -p "$partial" "$tools" "$GOCACHE"
}

# $1: folder, $2: tags, separated by commas, $3: variables that the linker sets (-X), the rest: packages
go_build() {
    folder=$1
    tags=$2
    variables=$3
    shift 3
    go build -trimpath -tags "$tags" -ldflags "-s -w -buildid= $variables" -o "$folder/" "$@"
}

# From import paths, one a line: the libraries they are in and, where its name does not say it, the package of
# Debian that has it.
libraries() {
    sed -e 's|^\(github\.com/fullsailor/pkcs7\).*|\1 golang-github-fullsailor-pkcs7-dev|' -e t \
        -e 's|^\(github\.com/[^/]*/[^/]*\).*|\1|' \
        -e 's|^\(go\.etcd\.io/bbolt\).*|\1 golang-github-coreos-bbolt-dev|' \
        -e 's|^\(go\.opentelemetry\.io/\([^/]*\)\).*|\1 golang-opentelemetry-\2-dev|' \
        -e 's|^\(go\.uber\.org/\([^/]*\)\).*|\1 golang-go.uber-\2-dev|' \
        -e 's|^\(golang\.org/x/\([^/]*\)\).*|\1 golang-golang-x-\2-dev|' \
        -e 's|^\(google\.golang\.org/\([^/]*\)\).*|\1 golang-google-\2-dev|' \
        -e 's|^\(gopkg\.in/\([^/]*\.v[0-9]*\)\).*|\1 golang-gopkg-\2-dev|' \
        -e 's|^\(gopkg\.in/\([^/]*\)/\([^/]*\.v[0-9]*\)\).*|\1 golang-gopkg-\2-\3-dev|' \
        -e 's|^\(k8s\.io/\([^/]*\)\).*|\1 golang-k8s-\2-dev|' \
        -e 's|^\(sigs\.k8s\.io/\([^/]*\)\).*|\1 golang-k8s-sigs-\2-dev|' |
        sort -u
}

# Every licence file between the folders on standard input and the root of the sources' own libraries.
vendored_licenses() {
    while read -r folder; do
        while [ "$folder" != "$tree/src/$import_path/vendor" ]; do
            [ ! -f "$folder/LICENSE" ] || printf '%s\n' "$folder/LICENSE"
            folder=${folder%/*}
        done
    done | sort -u
}

# $1: title, $2: file
section() {
    printf '%s\n%s\n%s\n\n' "$separator" "$1" "$separator"
    cat "$2"
    printf '\n'
}

# The copyright files of library $1 in Debian's package $2.
copyright_files() {
    if [ -n "$2" ]; then
        ls "$tree/doc/$2/copyright"
    else
        grep -l -i -x -e "Source: *https://$1\\(\\.git\\)\\?/*" "$tree"/doc/*/copyright
    fi
}

third_party() {
    cat <<'END'
What is linked into the programs, with its authors and licences. "debian/*" in Debian's copyright files means
what Debian added to make packages: nothing of that is linked. Go's standard library has the authors and the
licence of golang.org/x/sys. The Apache License 2.0, where it is only named, is in the file LICENSE (on Debian:
/usr/share/common-licenses/Apache-2.0).

END
    section "$import_path $version" "$tree/debian/copyright"
    awk -v own="$import_path/vendor/" 'index($1, own) == 1 {print $2}' "$tools/linked" |
        vendored_licenses >"$tools/files"
    while read -r file; do
        name=${file#"$tree/src/$import_path/vendor/"}
        section "${name%/*}" "$file"
    done <"$tools/files"
    awk -v own="$import_path/" 'index($1 "/", own) != 1 {print $1}' "$tools/linked" | libraries >"$tools/libraries"
    while read -r library package; do
        copyright_files "$library" "$package" >"$tools/files" || die "$tree/doc has no copyright file of $library"
        while read -r file; do
            section "$library" "$file"
        done <"$tools/files"
    done <"$tools/libraries"
}

# Full texts of licences that Debian's copyright files only name, from files beside this one. What Debian adds
# to make packages may be under the GPL.
common_licenses() {
    sed -n 's|.*/common-licenses/\([A-Za-z]*-[0-9]\(\.[0-9]\)*\).*|\1|p' "$partial/licenses/THIRD-PARTY-LICENSES" |
        sort -u | grep -v -x -e Apache-2.0 -e 'GPL-[23]' >"$tools/files" || :
    while read -r name; do
        [ -f "$here/$name" ] || die "the text of the licence $name is not in $here"
        section "$name" "$here/$name" >>"$partial/licenses/THIRD-PARTY-LICENSES"
    done <"$tools/files"
}

# $1: tags, the rest: packages of the programs
collect_licenses() {
    tags=$1
    shift
    go list -deps -tags "$tags" -f '{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}' "$@" >"$tools/linked"
    mkdir "$partial/licenses"
    cp "$tree/src/$import_path/LICENSE" "$partial/licenses/LICENSE"
    third_party >"$partial/licenses/THIRD-PARTY-LICENSES"
    common_licenses
}

# $@: the programs that OUTPUT_DIR must have
check_programs() {
    for program in "$@"; do
        [ -x "$partial/$program" ] || die "$program was not built"
        if readelf --wide --program-headers "$partial/$program" | grep -q -w INTERP; then
            die "$program is not static"
        fi
    done
    if grep -q -r -F -e "$tree" "$partial"; then
        die "a file contains the path of the tree ($tree)"
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
