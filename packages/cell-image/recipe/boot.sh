#!/bin/busybox sh
# Brings the machine from a mounted root to the point where the agent can start. /dev, /proc and /sys are mounted.
# Every line costs milliseconds of each pod's start: "busybox sh" runs its own applets without a fork where it can.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
read -r userspace _ </proc/uptime
echo "kip: userspace $userspace"

mount -t tmpfs -o nosuid,nodev,mode=755 run /run
mount -t tmpfs -o nosuid,nodev tmp /tmp
mkdir -p /dev/pts /dev/shm /run/kip /run/lock
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev shm /dev/shm
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
for name in $(cat /sys/fs/cgroup/cgroup.controllers); do
  echo "+$name" >/sys/fs/cgroup/cgroup.subtree_control
done
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd

address='' gateway='' dns='' name='' mtu=''
for word in $(cat /proc/cmdline); do
  case "$word" in
  kip.address=*) address=${word#*=} ;;
  kip.gateway=*) gateway=${word#*=} ;;
  kip.dns=*) dns=${word#*=} ;;
  kip.hostname=*) name=${word#*=} ;;
  kip.mtu=*) mtu=${word#*=} ;;
  esac
done

[ -n "$name" ] && echo "$name" >/etc/hostname
hostname -F /etc/hostname

ip link set lo up
ip link set eth0 up ${mtu:+mtu "$mtu"}
if [ -n "$address" ]; then
  ip addr add "$address" dev eth0
  [ -n "$gateway" ] && ip route add default via "$gateway"
  : >/etc/resolv.conf
  old=$IFS IFS=,
  for server in $dns; do echo "nameserver $server" >>/etc/resolv.conf; done
  IFS=$old
else
  udhcpc -i eth0 -q -n -f -s /usr/lib/kip/udhcpc >/run/kip/udhcpc.log 2>&1 || echo "kip: no DHCP answer on eth0"
fi
echo 1 >/proc/sys/net/ipv4/ip_forward
read -r network _ </proc/uptime
echo "kip: network $network"
printf '{"userspace": %s, "network": %s}\n' "$userspace" "$network" >/run/kip/boot-timings

# A disk larger than the image: the file system grows to it while it is in use, beside the agent's start.
disk=$(cat /sys/class/block/vda/size)
if [ "$disk" -gt "$(cat /usr/lib/kip/root-sectors)" ]; then
  (resize2fs /dev/vda >/run/kip/resize.log 2>&1 || echo "kip: cannot grow the root file system") &
fi
