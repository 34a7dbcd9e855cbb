#!/bin/sh
# Put Salt and the Python libraries it needs together, out of fetched wheels, without a network.
#
# usage: compile.sh WHEELS_DIR OUTPUT_DIR
#
# WHEELS_DIR holds exactly the files that wheels.sha256 (beside this script) lists. Leaves in OUTPUT_DIR,
# for x86-64 and the system's Python 3.11, what goes to /opt/metalk8s/salt:
#   bin/                            commands; they find the library from where they are
#   lib/python3.11/site-packages/   the library, byte-compiled
# and, for other places:
#   man/                            manual pages of the commands
#   licenses/{LICENSE,NOTICE}       Salt's own; those of the libraries are in their *.dist-info
#
# Same wheels and same Python give the same bytes, whatever the path, the time or the user. One result
# serves EL 8, EL 9 and Debian 12: no library in it needs a newer C or C++ library than EL 8 has.
#
# Needs: /usr/bin/python3.11 with pip, binutils, findutils, coreutils. OUTPUT_DIR appears whole, or not at
# all; one that exists is replaced. It is renamed into place, so it must not itself be a mount point.

set -eu

PREFIX=/opt/metalk8s/salt
PYTHON=/usr/bin/python3.11

# Command and the function of salt.scripts that it calls.
COMMANDS="salt:salt_main salt-api:salt_api salt-call:salt_call salt-cp:salt_cp salt-key:salt_key
salt-master:salt_master salt-minion:salt_minion salt-run:salt_run salt-ssh:salt_ssh"

# Salt comes as a source distribution and is made into a wheel with this; nothing of it runs afterwards.
BUILD_TOOL=setuptools

# Newest symbol versions of EL 8's glibc 2.28 and GCC 8.
GLIBC=2.28 GLIBCXX=3.4.25 CXXABI=1.3.11 GCC=7.0.0
# What every supported system has: parts of glibc, and the libraries of GCC.
SYSTEM_LIBRARIES="ld-linux-x86-64.so.2 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0
librt.so.1 libstdc++.so.6"

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

check_wheels() {
    (cd "$wheels" && sha256sum --check --strict --quiet "$lock") || die "$wheels differs from $lock"
    find "$wheels" -mindepth 1 -printf '%P\n' | sort >"$partial/found"
    sed 's/^[0-9a-f]*  //' "$lock" | sort | cmp -s - "$partial/found" ||
        die "$wheels holds other files than those in $lock"
    rm "$partial/found"
}

# One requirement for each listed file whose name ends in $1: the name and version are the first two words of
# the file's name, and the digest lets pip take no other file.
requirements() {
    sed -n "/$1\$/s/^\\([0-9a-f]*\\)  \\([^-]*\\)-\\([0-9][^-]*\\)\\(-.*\\.whl\\|\\.tar\\.gz\\)\$/\\2==\\3 --hash=sha256:\\1/p" "$lock"
}

# --no-deps: the lock is complete, and some of it is left out on purpose (left-out.txt).
install_from() {
    requirements "$1" >"$partial/requirements.txt"
    [ -s "$partial/requirements.txt" ] || die "$lock lists no $1"
    PYTHONPATH=$site "$PYTHON" -s -m pip --quiet --isolated --no-cache-dir --disable-pip-version-check install \
        --root-user-action=ignore --no-index --find-links "$wheels" --require-hashes --no-deps \
        --no-build-isolation --no-compile --no-warn-script-location --target "$site" \
        --requirement "$partial/requirements.txt"
    # Of the same name in each call, and pip adds to no folder that is there.
    rm -rf "${site:?}/bin" "$partial/requirements.txt"
}

# Wheels first: they hold what Salt's source distribution is built with.
install_library() {
    mkdir -p "$site"
    install_from .whl
    install_from .tar.gz
    mv "$site/share/man/man1" "$partial/all-man"
    rm -rf "$site/share" "$site/include" "${site:?}/$BUILD_TOOL" "$site/$BUILD_TOOL"-*.dist-info \
        "$site/_distutils_hack" "$site/distutils-precedence.pth" "$site/pkg_resources"
    if find "$site" -name '*.pth' | grep -q .; then
        die "a library counts on .pth files, which are not read in $PREFIX"
    fi
}

# pip's own records: which files it wrote, from where, on whose demand. rpm and dpkg keep that.
# Everything that a node never reads.
remove_rest() {
    # pip's own records: which files it wrote, from where, on whose demand. rpm and dpkg keep that.
    find "$site" -path '*.dist-info/*' \
        \( -name RECORD -o -name INSTALLER -o -name REQUESTED -o -name direct_url.json \) -delete
    # Tests of the libraries, and what only compilers and type checkers read.
    find "$site" -mindepth 2 -maxdepth 2 -type d \( -name test -o -name tests -o -name SelfTest \) -prune \
        -exec rm -rf {} +
    find "$site" -type f \( -name '*.c' -o -name '*.h' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.proto' \
        -o -name '*.pyi' -o -name '*.pyx' -o -name py.typed \) -delete
    # salt-cloud's: they fetch Salt from the network.
    find "$site/salt/cloud/deploy" -type f -name '*.sh' -delete
}

# -I: neither PYTHONPATH and the like nor files of the user may change what a root command runs. The system's
# own libraries (such as python3-apt) stay in reach, behind ours.
write_commands() {
    mkdir "$partial/bin" "$partial/man"
    for pair in $COMMANDS; do
        command=${pair%:*}
        cat >"$partial/bin/$command" <<END
#!$PYTHON -I
import os.path
import sys

prefix = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(prefix, "lib/python3.11/site-packages"))

from salt.scripts import ${pair#*:}

sys.exit(${pair#*:}())
END
        mv "$partial/all-man/$command.1" "$partial/man/$command.1"
    done
    rm -rf "$partial/all-man"
}

set_modes() {
    find "$partial" -type d -exec chmod 0755 {} +
    find "$partial" -type f -exec chmod 0644 {} +
    find "$site" -type f \( -name '*.so' -o -name '*.so.*' \) -exec chmod 0755 {} +
    # Git starts this one where it is.
    chmod 0755 "$site/salt/templates/git/ssh-id-wrapper"
    chmod 0755 "$partial/bin/"*
}

# Unchecked hashes: neither dates nor sources are compared at run time, so packaging may set any date.
byte_compile() {
    # Without site and its .pth files, and one after the other: what is interned decides on the bytes.
    "$PYTHON" -I -S -m compileall -q -j 1 --invalidation-mode unchecked-hash \
        -s "$partial" -p "$PREFIX" "$site" || die "a module does not compile"
}

libraries() {
    find "$site" -type f \( -name '*.so' -o -name '*.so.*' \) | sort
}

# $1: versions that are needed (NAME_1.2.3, one a line), $2: NAME, $3: newest allowed
check_newest() {
    newest=$(printf '%s\n' "$1" "$2_$3" | sed -n "s/^$2_\\([0-9.]*\\)\$/\\1/p" | sort -V | tail -n 1)
    [ "$newest" = "$3" ] || die "a library needs $2 $newest, EL 8 has $3"
}

check_libraries() {
    needed=$(libraries | xargs readelf --wide --version-info | sed -n 's/.*Name: \([A-Z]*_[0-9.]*\) .*/\1/p' | sort -u)
    check_newest "$needed" GLIBC "$GLIBC"
    check_newest "$needed" GLIBCXX "$GLIBCXX"
    check_newest "$needed" CXXABI "$CXXABI"
    check_newest "$needed" GCC "$GCC"
    bundled=$(libraries | sed 's|.*/||')
    for name in $(libraries | xargs readelf --wide --dynamic | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | sort -u); do
        # shellcheck disable=SC2086  # lists of names
        printf '%s\n' $SYSTEM_LIBRARIES $bundled | grep -q -x -F "$name" || die "nothing provides $name"
    done
}

# Salt wants its user's account even for --version; who builds may have none.
start() {
    "$PYTHON" -I -c '
import os, pwd, runpy, sys

account = pwd.struct_passwd(("builder", "x", os.getuid(), os.getgid(), "", "/", "/bin/sh"))
pwd.getpwuid = lambda uid: account
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
' "$partial/bin/$1" --version
}

check_output() {
    version=$(sed -n 's/^.*  salt-\(.*\)\.tar\.gz$/\1/p' "$lock")
    for pair in $COMMANDS; do
        command=${pair%:*}
        said=$(start "$command") || die "$command does not start"
        case $said in
        "$command $version "* | "$command $version") ;;
        *) die "$command calls itself '$said', expected '$command $version'" ;;
        esac
    done
    if grep -q -r -F -e "$partial" -e "$wheels" "$partial"; then
        die "a file contains the path of the build ($partial)"
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

[ $# -eq 2 ] || die "usage: compile.sh WHEELS_DIR OUTPUT_DIR"
need "$PYTHON" readelf sha256sum find sort sed grep cmp xargs
"$PYTHON" -s -m pip --version >/dev/null 2>&1 || die "pip of $PYTHON is not installed"
[ -d "$1" ] || die "$1: no such folder"
lock=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)/wheels.sha256
wheels=$(cd "$1" && pwd -P)
mkdir -p "$(dirname "$2")"
output=$(cd "$(dirname "$2")" && pwd -P)/$(basename "$2")
partial=$output.partial
site=$partial/lib/python3.11/site-packages

# No setting of the caller may change the bytes. Salt's build writes dates; the one it gets is of no meaning.
umask 022
export LC_ALL=C.UTF-8 TZ=UTC PYTHONHASHSEED=0 SOURCE_DATE_EPOCH=315532800
export PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
rm -rf "$partial"
scratch=$(mktemp -d)
trap 'rm -rf "$partial" "$scratch"' EXIT
mkdir "$partial"
# Any user may build, also one without a home.
export HOME="$scratch" TMPDIR="$scratch"

step "1/5 check the wheels"
check_wheels
step "2/5 install the library"
install_library
mkdir "$partial/licenses"
cp "$site"/salt-*.dist-info/LICENSE "$site"/salt-*.dist-info/NOTICE "$partial/licenses/"
remove_rest
step "3/5 write the commands"
write_commands
set_modes
step "4/5 byte-compile"
byte_compile
step "5/5 check: libraries fit EL 8, commands start"
check_libraries
check_output
publish
step "done: $output"
