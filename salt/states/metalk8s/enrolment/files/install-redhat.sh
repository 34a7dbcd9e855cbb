#!/bin/sh
# Installs the Salt minion from our repository alone; the files that say where that is have just been written.
# shellcheck disable=SC2154  # whoever sends it sets these

if [ "$(rpm -q --qf '%{VERSION}-%{RELEASE}' "$package" 2>/dev/null)" != "$version" ]; then
    dnf --assumeyes '--disablerepo=*' "--enablerepo=$repository" --setopt=install_weak_deps=False \
        "--setopt=$repository.proxy=" install "$package-$version" >&2
    say "$package"
fi
echo end=install
