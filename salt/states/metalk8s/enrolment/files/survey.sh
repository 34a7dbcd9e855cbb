#!/bin/sh
# Says what a machine is, as lines key=value; changes nothing. It needs what every Debian and EL has, and no Python.
# What it looks for is in variables that whoever sends it sets first.
# shellcheck disable=SC2154

value() { # file; its first line
    if [ -r "$1" ]; then head -n 1 "$1"; fi
}

system() (
    # shellcheck disable=SC1091  # of the machine
    [ ! -r /etc/os-release ] || . /etc/os-release
    printf 'os=%s\nos_version=%s\nos_name=%s\n' "${ID:-}" "${VERSION_ID:-}" "${PRETTY_NAME:-}"
)

own() {
    printf 'time=%s\n' "$(date +%s.%N)"
    printf 'user=%s\narchitecture=%s\nkernel=%s\n' "$(id -u)" "$(uname -m)" "$(uname -r)"
    system
    printf 'hostname=%s\nmachine_id=%s\n' "$(uname -n)" "$(value /etc/machine-id)"
    [ ! -d /run/systemd/system ] || echo systemd=yes
    printf 'cpus=%s\n' "$(grep -c ^processor /proc/cpuinfo)"
    awk '$1 == "MemTotal:" { print "memory=" $2 }' /proc/meminfo
    # Addresses of this machine: leaves of the kernel's own table; there may be no ip.
    awk '$1 == "|--" { leaf = $2 } $2 == "host" && $1 == "/32" { print "address=" leaf }' /proc/net/fib_trie | sort -u
}

# What it swaps to, now and at the next start.
swaps() {
    awk 'NR > 1 { print "swap=" $1 }' /proc/swaps
    [ ! -r /etc/fstab ] ||
        awk '$1 !~ /^#/ && $3 == "swap" && $4 !~ /(^|,)noauto(,|$)/ { print "later_swap=" $1 }' /etc/fstab
}

# Of the file system that a folder is on, or will be: size, free (KiB), free inodes, options.
disks() {
    for folder in / /var/lib /var/lib/containerd /var/lib/etcd; do
        place=$folder
        while [ ! -d "$place" ]; do place=$(dirname "$place"); done
        blocks=$(df -Pk "$place" | awk 'NR == 2 { print $2, $4 }')
        inodes=$(df -Pi "$place" | awk 'NR == 2 { print $2, $4 }')
        printf 'disk=%s %s %s\n' "$folder" "$blocks" "$inodes"
    done
}

kernel() {
    if [ -r /sys/fs/cgroup/cgroup.controllers ]; then
        printf 'cgroups=v2 %s\n' "$(value /sys/fs/cgroup/cgroup.controllers)"
    else
        printf 'cgroups=v1 %s\n' "$(awk '$1 !~ /^#/ && $4 == 1 { printf "%s ", $1 }' /proc/cgroups)"
    fi
    printf 'selinux=%s\n' "$(value /sys/fs/selinux/enforce)"
    lists=''
    for list in dep builtin; do
        [ ! -r "/lib/modules/$(uname -r)/modules.$list" ] || lists="$lists /lib/modules/$(uname -r)/modules.$list"
    done
    for module in $modules; do
        [ -d "/sys/module/$module" ] || ! lost "$module" || printf 'lost_module=%s\n' "$module"
    done
    for pair in $signs; do # of modules without which nothing begins
        [ -e "${pair#*:}" ] || [ -n "$lists" ] || printf 'lost_module=%s\n' "${pair%%:*}"
    done
}

lost() { # module; where nothing lists them, they are believed to be there
    [ -n "$lists" ] || return 1
    # shellcheck disable=SC2086  # several
    ! grep -q "/$(echo "$1" | sed 's/[-_]/[-_]/g')\.ko" $lists
}

# What another cluster left, or ours.
leftovers() {
    for path in $traces; do
        if [ -d "/$path" ]; then
            inside=$(find "/$path" -mindepth 1 -maxdepth 1 ! -name lost+found | head -n 1)
        else
            inside=$(find "/$path" -maxdepth 0 2>/dev/null) || :
        fi
        [ -z "$inside" ] || printf 'trace=%s\n' "$path"
    done
    for path in $programs; do
        [ ! -e "/$path" ] || printf 'program=%s\n' "$path"
    done
    if [ -r "$authority" ]; then
        digest=$(sed '/-----/d' "$authority" | base64 -d 2>/dev/null | sha256sum)
        printf 'authority=%s\n' "${digest%% *}"
    fi
    if [ -r "$master_key" ]; then
        digest=$(tr -d '[:space:]' <"$master_key" | sha256sum)
        printf 'master_key=%s\n' "${digest%% *}"
    fi
}

packages() {
    if command -v dpkg-query >/dev/null; then
        # shellcheck disable=SC2016,SC2086  # dpkg's, several
        dpkg-query -W -f 'package=${Package} ${Version} ${db:Status-Status} ${db:Status-Want}\n' $names 2>/dev/null |
            grep ' installed ' || :
        [ -z "$(dpkg --audit 2>/dev/null)" ] || echo unfinished=dpkg
    elif command -v rpm >/dev/null; then
        # shellcheck disable=SC2086  # several
        rpm -q --qf 'package=%{NAME} %{VERSION}-%{RELEASE} installed install\n' $names | grep ^package= || :
    fi
}

accounts() {
    awk -F: '{ print "account=" $1 " " $3 }' /etc/passwd
    awk -F: '{ print "group=" $1 " " $3 }' /etc/group
}

ports() { # that somebody listens on, hexadecimal as the kernel shows them
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk '$4 == "0A" { count = split($2, part, ":"); print "port=" part[count] }' | sort -u
}

own
swaps
disks
kernel
leftovers
packages
accounts
ports
[ ! -e /etc/resolv.conf ] || echo resolver=yes
echo end=survey
