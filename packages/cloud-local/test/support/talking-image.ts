import { appendFile, copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { buildCellImage } from "@kip/cell-image";
import { cpioArchive } from "../../../cell-image/src/cpio.ts";

/**
 * What the guest does once it is there: `good` becomes what its personality says; `refuse` says another word;
 * `hang-up` closes the port without one; `die` switches itself off; `never` never becomes a template.
 */
export type TalkingGuest = "good" | "refuse" | "hang-up" | "die" | "never";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";

/**
 * Writes an image that talks as a cell does at its personality port, but has no agent: the kernel and the modules
 * of the cell image, and a shell script. It becomes a template in two seconds instead of ten.
 */
export async function writeTalkingImage(
  imagesDir: string,
  id: string,
  guest: TalkingGuest,
): Promise<void> {
  const cell = await buildCellImage({
    cacheDir,
    agentEntry: path.join(import.meta.dirname, "../../../../apps/itzo/src/main.ts"),
  });
  const folder = path.join(imagesDir, id);
  await mkdir(folder, { recursive: true });
  await symlink(path.join(cell.dir, "vmlinuz"), path.join(folder, "vmlinuz"));
  await symlink(path.join(cell.dir, "root.img"), path.join(folder, "root.img"));
  await copyFile(path.join(cell.dir, "initrd"), path.join(folder, "initrd"));
  const init = { path: "init", content: Buffer.from(script), isExecutable: true };
  await appendFile(path.join(folder, "initrd"), cpioArchive([init])); // the later one counts
  const image = {
    schema: 1,
    id,
    kernel: "vmlinuz",
    initrd: "initrd",
    rootDisk: "root.img",
    rootDiskBytes: 2 ** 30,
    cmdline: `console=ttyS0 quiet panic=-1 talk=${guest}`,
    template: true,
    created: new Date().toISOString(),
  };
  await writeFile(path.join(folder, "image.json"), JSON.stringify(image));
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
insmod /root/usr/lib/modules/*/kernel/drivers/char/virtio_console.ko
umount /root
cmdline=" $(cat /proc/cmdline) "
case "$cmdline" in
*" kip.template "*) ;;
*) echo booted; while :; do sleep 1000; done ;;
esac
case "$cmdline" in *" talk=never "*) echo waiting; while :; do sleep 1000; done ;; esac
until port=$(ls /dev/vport*p1); do usleep 10000; done 2>/dev/null
exec 3<>$port
echo template >&3
while :; do
  IFS= read -r line <&3
  case "$line" in *'"images":'*) ;; *) break ;; esac
  errand=$line
  case "$line" in
  *unknown*) echo "no such image" >&3 ;;
  *endless*) echo waiting; while :; do sleep 1000; done ;;
  *) echo template >&3 ;;
  esac
done
echo "personality $line"
echo "errand $errand"
echo "disk $(head -c 7 /dev/vda | tr -d '\\0')"
printf changed >/dev/vda
sync
case "$cmdline" in
*" talk=good "*) echo ready >&3 ;;
*" talk=refuse "*) echo cannot >&3 ;;
*" talk=hang-up "*) exec 3>&- ;;
*" talk=die "*) poweroff -f ;;
esac
while :; do sleep 1000; done
`;
