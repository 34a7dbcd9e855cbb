#!/bin/sh
# Make a root file system a machine that can be reached: $1 is the root, $2 the public key of who may enter.
#
# This is what an installer asks its user: a name, a network, an account. Nothing here is for our sake.

set -eu

echo bootstrap >"$1/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 bootstrap\n::1 localhost ip6-localhost ip6-loopback\n' >"$1/etc/hosts"
echo '/dev/vda / ext4 defaults 0 1' >"$1/etc/fstab"
cat >"$1/etc/systemd/network/wired.network" <<END
[Match]
Name=en*

[Network]
DHCP=ipv4
END
chroot "$1" systemctl --quiet enable systemd-networkd
# Nobody answers there; the resolver of a site that was moved away.
rm -f "$1/etc/resolv.conf"
echo 'nameserver 192.0.2.53' >"$1/etc/resolv.conf"
install -d -m 0700 "$1/root/.ssh"
install -m 0600 "$2" "$1/root/.ssh/authorized_keys"
