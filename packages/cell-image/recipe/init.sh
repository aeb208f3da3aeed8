#!/bin/busybox sh
# First program of a cell: finds the root disk, hands it the agent, becomes the root's init.
# Runs from the initramfs, where busybox is the only program.
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
read -r uptime _ </proc/uptime
echo "kip: initramfs $uptime"

# One program for all of them: each start of one costs about 10 ms under emulation.
read -r modules </early-modules
modprobe -a $modules || echo "kip: cannot load all of $modules"

root=/dev/vda label=
for word in $(cat /proc/cmdline); do
  case "$word" in
  root=PARTLABEL=*) root= label=${word#root=PARTLABEL=} ;;
  root=*) root=${word#root=} ;;
  esac
done
# A partition by its name, where the disk's own depends on the machine.
find_partition() {
  for file in $(grep -lx "PARTNAME=$label" /sys/class/block/*/uevent); do
    root=${file%/uevent}
    root=/dev/${root##*/}
  done
}
# The disk shows up within milliseconds of its driver. No event reaches a shell here, hence the polling.
tries=0
while [ ! -b "$root" ]; do
  [ -n "$label" ] && find_partition
  tries=$((tries + 1))
  [ "$tries" -gt 500 ] && echo "kip: no root disk ${label:-$root}" && poweroff -f
  usleep 10000
done
mount -t ext4 -o rw,noatime "$root" /root || { echo "kip: cannot mount $root"; poweroff -f; }

# The agent and the boot scripts travel in the initramfs, so that a new agent needs no new root disk.
cp -r /overlay/. /root/

mount --move /dev /root/dev
mount --move /proc /root/proc
mount --move /sys /root/sys
exec switch_root /root /sbin/init
