#!/bin/busybox sh
# What udhcpc calls with the lease in its environment.
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip addr replace "$ip/$mask" dev "$interface"
for gateway in $router; do
  ip route replace default via "$gateway"
  break
done
: >/etc/resolv.conf
for server in $dns; do echo "nameserver $server" >>/etc/resolv.conf; done
