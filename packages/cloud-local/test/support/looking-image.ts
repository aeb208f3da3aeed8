import { appendFile, copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { buildCellImage } from "@kip/cell-image";
import type { GuestView } from "@kip/cloud/testing";
import { cpioArchive } from "../../../cell-image/src/cpio.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";

/**
 * Writes an image that tells on its console what disks it sees, and writes its host name on those that are empty: kernel
 * and modules of the cell image, and a shell script for an init.
 */
export async function writeLookingImage(imagesDir: string, id: string): Promise<void> {
  const cell = await buildCellImage({
    cacheDir,
    agentEntry: path.join(import.meta.dirname, "../../../../apps/itzo/src/main.ts"),
  });
  const folder = path.join(imagesDir, id);
  await mkdir(folder, { recursive: true });
  await symlink(cell.kernel, path.join(folder, "vmlinuz"));
  await symlink(cell.rootDisk, path.join(folder, "root.img"));
  await copyFile(cell.initrd, path.join(folder, "initrd"));
  const init = { path: "init", content: Buffer.from(script), isExecutable: true };
  await appendFile(path.join(folder, "initrd"), cpioArchive([init])); // the later one counts
  const image = {
    schema: 1,
    id,
    kernel: "vmlinuz",
    initrd: "initrd",
    rootDisk: "root.img",
    rootDiskBytes: cell.rootDiskBytes,
    cmdline: cell.cmdline,
    created: new Date().toISOString(),
  };
  await writeFile(path.join(folder, "image.json"), JSON.stringify(image));
}

/** The last view in the text of a console; of no disks at all while there is none. */
export function readView(consoleText: string): GuestView {
  // Not at the beginning of a line: the firmware leaves its last words without an end.
  const views = [...consoleText.matchAll(/view (.*) end\r?$/gm)];
  const [root = "", ...disks] = views.at(-1)?.[1]?.split(" / ") ?? [];
  return {
    rootBytes: Number(root) || 0,
    disks: disks.map((disk) => {
      const [serial = "", sizeBytes = "", content = ""] = disk.split(" ");
      return { serial, sizeBytes: Number(sizeBytes), content };
    }),
  };
}

const script = `#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
read -r modules </early-modules
modprobe -a $modules
while [ ! -b /dev/vda ]; do usleep 10000; done
mount -t ext4 -o ro,noload /dev/vda /root
chroot /root modprobe -a virtio_scsi sd_mod
umount /root
for word in $(cat /proc/cmdline); do
  case "$word" in kip.hostname=*) name=\${word#kip.hostname=} ;; esac
done
while :; do
  view=$(($(cat /sys/block/vda/size) * 512))
  for disk in /sys/block/sd*; do
    device=/dev/\${disk##*/}
    [ -b "$device" ] || continue
    serial=$(tail -c +5 $disk/device/vpd_pg80)
    content=$(head -c 64 $device | tr -d '\\0' | head -n 1)
    if [ -z "$content" ]; then
      echo "$name" >$device
      sync
      content=$(head -c 64 $device | head -n 1)
    fi
    view="$view / $serial $(($(cat $disk/size) * 512)) $content"
  done
  [ "$view" = "$last" ] || echo "view $view end"
  last=$view
  usleep 100000
done
`;
