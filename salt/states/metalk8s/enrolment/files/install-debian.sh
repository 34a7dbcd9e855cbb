#!/bin/sh
# Installs the Salt minion from our repository alone; the files that say where that is have just been written.
# shellcheck disable=SC2154  # whoever sends it sets these

apt() {
    apt-get -q -oDPkg::Lock::Timeout=120 "$@" >&2
}

there() {
    # shellcheck disable=SC2016  # dpkg's
    dpkg-query -W -f '${Version} ${db:Status-Status}' "$package" 2>/dev/null || :
}

# What a killed run left half configured; nothing to do otherwise. dpkg waits for no lock, APT does; that dpkg was
# interrupted is no error yet.
apt check || [ $? -eq 100 ]
dpkg --configure -a >&2
if [ "$(there)" != "$version installed" ]; then
    apt "-oDir::Etc::SourceList=$source" -oDir::Etc::SourceParts=/dev/null -oAPT::Get::List-Cleanup=false \
        --error-on=any update
    apt "-oDir::Etc::SourceList=$source" -oDir::Etc::SourceParts=/dev/null --yes --no-install-recommends \
        install "$package=$version"
    say "$package"
fi
# As its own state keeps it: what changes is what that state restarts the minion for.
if [ "$(apt-mark showhold "$package")" != "$package" ]; then
    apt-mark hold "$package" >&2
    say "$package held"
fi
echo end=install
