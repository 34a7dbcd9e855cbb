#!/bin/sh
# What a machine is like, one trait a line: kind, tab, name. Runs on any machine with Debian's required packages.

set -eu
export LC_ALL=C

dpkg-query --show --showformat='package\t${Package}\n'
cut -d: -f1 /etc/passwd | sed 's/^/user\t/'
# Folders that no package made: somebody prepared them.
find /etc /home /opt /root /srv /usr /var -xdev -type d ! -path '*/__pycache__' | sort >/run/folders
cat /var/lib/dpkg/info/*.list | sort -u >/run/packaged
comm -23 /run/folders /run/packaged | sed 's/^/folder\t/'
rm /run/folders /run/packaged
findmnt --noheadings --list --output TARGET,FSTYPE | awk '{print "mount\t" $1 " " $2}'
find /sys/module -mindepth 1 -maxdepth 1 -printf 'module\t%f\n'
# Those that containers, their network and our states depend on.
for setting in fs.inotify fs.file-max kernel.keys kernel.panic net.bridge net.ipv4.conf.all \
    net.ipv4.conf.default net.ipv4.ip_forward net.netfilter vm.overcommit_memory vm.max_map_count; do
    folder=/proc/sys/$(printf %s "$setting" | tr . /)
    find "$folder" -type f 2>/dev/null | while read -r file; do
        printf 'setting\t%s=%s\n' "$(printf %s "${file#/proc/sys/}" | tr / .)" "$(tr '\t' ' ' <"$file" 2>/dev/null || :)"
    done
done
stat --file-system --format='cgroup%t%T' /sys/fs/cgroup | sed 's/^cgroup/cgroup\t/'
awk 'NR > 1 {print "limit\t" $0}' /proc/1/limits | tr -s ' '
for tool in python3 curl gpg openssl perl sudo nft iptables firewall-cmd; do
    command -v "$tool" | sed 's/^/program\t/' || :
done
