#!/bin/busybox sh
# Grows a partition, the last one of its disk, to the end of the disk, while it is mounted: the table first, then what the kernel knows.
# Called with the name of its device, nvme0n1p3 for one.
set -e
folder=$(readlink -f "/sys/class/block/$1")
read -r number <"$folder/partition"
disk=/dev/$(basename "$(dirname "$folder")")
echo ', +' | sfdisk --quiet --no-reread --no-tell-kernel --force -N "$number" "$disk"
partx --update --nr "$number" "$disk"
