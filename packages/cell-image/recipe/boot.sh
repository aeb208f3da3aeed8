#!/bin/busybox sh
# Brings the machine from a mounted root to the point where the agent can work. /dev, /proc and /sys are mounted.
# Each program that is started here costs about 10 ms of every pod's start under emulation.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
read -r userspace _ </proc/uptime
echo "kip: userspace $userspace"

mount -t tmpfs -o nosuid,nodev,mode=755 run /run
mount -t tmpfs -o nosuid,nodev tmp /tmp
mkdir -p /dev/pts /dev/shm /run/kip /run/lock
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev shm /dev/shm
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
read -r controllers </sys/fs/cgroup/cgroup.controllers
for name in $controllers; do
  echo "+$name" >/sys/fs/cgroup/cgroup.subtree_control
done
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
echo 1 >/proc/sys/net/ipv4/ip_forward
# A user's programs share the number of files that they may wait for. Root's containers must not use up the agent's, which
# would be killed without one. The memory of each counts for the container.
echo 9223372036854775807 >/proc/sys/fs/epoll/max_user_watches
# Huge pages for programs that ask for them: others would have 2 MiB where they touch 4 KiB, the agent three times.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled

# The files of the disk labelled CIDATA, for the agent, which deletes them: they hold the cell's key. It is the second
# disk, if the launcher keeps to the rule; looking for the label takes longer. Without such a disk the agent asks the
# metadata service of the cloud.
fetch_seed() {
  mkdir -p -m 700 /run/kip/seed-disk /run/kip/seed
  mount -t iso9660 -o ro /dev/vdb /run/kip/seed-disk 2>/dev/null ||
    mount -t iso9660 -o ro "$(findfs LABEL=CIDATA 2>/dev/null)" /run/kip/seed-disk 2>/dev/null || return 0
  cp /run/kip/seed-disk/*-data /run/kip/seed/
  umount /run/kip/seed-disk
}

set_up_network() {
  address='' gateway='' dns='' name='' mtu=''
  for word in $cmdline; do
    case "$word" in
    kip.address=*) address=${word#*=} ;;
    kip.gateway=*) gateway=${word#*=} ;;
    kip.dns=*) dns=${word#*=} ;;
    kip.hostname=*) name=${word#*=} ;;
    kip.mtu=*) mtu=${word#*=} ;;
    esac
  done
  [ -n "$name" ] && echo "$name" >/proc/sys/kernel/hostname
  ip link set lo up
  ip link set eth0 up ${mtu:+mtu "$mtu"}
  if [ -z "$address" ]; then
    udhcpc -i eth0 -q -n -f -s /usr/lib/kip/udhcpc >/run/kip/udhcpc.log 2>&1 || echo "kip: no DHCP answer on eth0"
    return
  fi
  ip addr add "$address" dev eth0
  [ -n "$gateway" ] && ip route add default via "$gateway"
  old=$IFS IFS=,
  for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
  IFS=$old
}

make_machine_id() {
  read -r id </proc/sys/kernel/random/uuid
  echo "${id//-/}" >/etc/machine-id
}

# A disk larger than the image: the file system grows to it while it is in use, and first its partition if it is in one.
grow_root() {
  while read -r device place _; do
    [ "$place" = / ] && root=${device#/dev/}
  done </proc/mounts
  if [ -e "/sys/class/block/$root/partition" ]; then
    /usr/lib/kip/grow-partition "$root" >/run/kip/partition.log 2>&1 || echo "kip: cannot grow the root partition"
  fi
  read -r disk <"/sys/class/block/$root/size"
  read -r image </usr/lib/kip/root-sectors
  [ "$disk" -gt "$image" ] || return 0
  resize2fs "/dev/$root" >/run/kip/resize.log 2>&1 || echo "kip: cannot grow the root file system"
}

# What rules of Services and policies need. Rules load what is missing, but one after the other.
load_rules_modules() {
  nice modprobe -a nf_tables nft_chain_nat nft_ct nft_nat nft_masq nft_numgen nft_fib_ipv4 nft_fib_ipv6 \
    nft_reject_ipv4 nft_reject_ipv6 nf_conntrack_netlink || echo "kip: cannot load the modules of network rules"
}

# A template: what belongs to one machine only comes to each of its copies, by the agent.
prepare_template() {
  ip link set lo up
  # The last two are for disks that are plugged in; the agent of a machine that was not copied loads them when it gets one.
  modprobe -a virtio_console virtio_scsi sd_mod || echo "kip: cannot load the template's modules"
  load_rules_modules
  mkfifo -m 600 /run/kip/become /run/kip/become-answers
  perl /usr/lib/kip/become </run/kip/become >/run/kip/become-answers &
  grow_root
  : >/run/kip/boot-done
}

# Seen by the agent from its first moment on.
read -r cmdline </proc/cmdline
case " $cmdline " in
*" kip.template "*)
  : >/run/kip/template
  # A file stands in for the boot's ID, so that the kernel does not make one before there are copies.
  echo 00000000-0000-4000-8000-000000000000 >/run/kip/boot-id
  mount --bind /run/kip/boot-id /proc/sys/kernel/random/boot_id
  prepare_template &
  exit
  ;;
esac

# Beside the agent's start, which takes longer. The agent waits for the file boot-timings.
{
  [ -s /etc/machine-id ] || make_machine_id
  set_up_network
  fetch_seed
  read -r network _ </proc/uptime
  echo "kip: network $network"
  echo "{\"userspace\": $userspace, \"network\": $network}" >/run/kip/boot-timings.part
  mv /run/kip/boot-timings.part /run/kip/boot-timings
  grow_root
  : >/run/kip/boot-done
  load_rules_modules
} &
