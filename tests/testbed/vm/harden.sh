#!/bin/sh
# Make a root file system one that a security profile would pass: $1 is the root.

set -eu

# Whatever is made without a mode of its own is nobody else's to read.
sed -i 's/^UMASK.*/UMASK 077/' "$1/etc/login.defs"
echo 'session optional pam_umask.so umask=0077' >>"$1/etc/pam.d/common-session"
echo 'umask 077' >>"$1/etc/profile"
# A locale that was never generated, and proxies of another network.
cat >>"$1/etc/environment" <<END
LANG=de_DE.UTF-8
LC_ALL=de_DE.UTF-8
http_proxy=http://192.0.2.1:3128
https_proxy=http://192.0.2.1:3128
HTTP_PROXY=http://192.0.2.1:3128
HTTPS_PROXY=http://192.0.2.1:3128
END
echo 'tmpfs /tmp tmpfs noexec,nosuid,nodev,mode=1777 0 0' >>"$1/etc/fstab"
cat >"$1/etc/sysctl.d/99-zz-hardened.conf" <<END
fs.protected_fifos=2
fs.protected_hardlinks=1
fs.protected_regular=2
fs.protected_symlinks=1
fs.suid_dumpable=0
kernel.dmesg_restrict=1
kernel.kptr_restrict=2
kernel.randomize_va_space=2
kernel.unprivileged_bpf_disabled=1
kernel.yama.ptrace_scope=2
net.ipv4.conf.all.accept_redirects=0
net.ipv4.conf.all.rp_filter=1
net.ipv4.conf.all.send_redirects=0
net.ipv4.conf.default.rp_filter=1
net.ipv4.ip_forward=0
END
# Drops what comes in, but for SSH.
cat >"$1/etc/nftables.conf" <<END
#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        iif lo accept
        ct state established,related accept
        tcp dport 22 accept
        udp sport 67 udp dport 68 accept
        icmp type { echo-request, destination-unreachable } accept
    }
    chain forward {
        type filter hook forward priority filter; policy drop;
    }
}
END
chmod 0755 "$1/etc/nftables.conf"
chroot "$1" systemctl --quiet enable nftables
