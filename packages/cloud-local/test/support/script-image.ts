import { appendFile, copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { buildCellImage } from "@kip/cell-image";
import { cpioArchive } from "../../../cell-image/src/cpio.ts";

const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";

/** The start of a script. It provides busybox's programs and the root disk, and loads `modules` from there. */
export function scriptHead(modules: string): string {
  return `#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
read -r modules </early-modules
modprobe -a $modules
while [ ! -b /dev/vda ]; do usleep 10000; done
mount -t ext4 -o ro,noload /dev/vda /root
chroot /root modprobe -a ${modules}
umount /root
cmdline=" $(cat /proc/cmdline) "
`;
}

/** Writes an image with the kernel, modules and root disk of the cell image, and a shell script instead of an agent. */
export async function writeScriptImage(
  imagesDir: string,
  image: {
    readonly id: string;
    readonly script: string;
    /** Additional kernel arguments. */
    readonly word?: string;
    /** Whether it can become a template. @default false */
    readonly template?: boolean;
  },
): Promise<void> {
  const cell = await buildCellImage({
    cacheDir,
    agentEntry: path.join(import.meta.dirname, "../../../../apps/itzo/src/main.ts"),
  });
  const folder = path.join(imagesDir, image.id);
  await mkdir(folder, { recursive: true });
  await symlink(cell.kernel, path.join(folder, "vmlinuz"));
  await symlink(cell.rootDisk, path.join(folder, "root.img"));
  await copyFile(cell.initrd, path.join(folder, "initrd"));
  const init = { path: "init", content: Buffer.from(image.script), isExecutable: true };
  await appendFile(path.join(folder, "initrd"), cpioArchive([init])); // the later file replaces the earlier one
  const document = {
    schema: 1,
    id: image.id,
    kernel: "vmlinuz",
    initrd: "initrd",
    rootDisk: "root.img",
    rootDiskBytes: cell.rootDiskBytes,
    cmdline: `${cell.cmdline} ${image.word ?? ""}`.trim(),
    template: image.template ?? false,
    created: new Date().toISOString(),
  };
  await writeFile(path.join(folder, "image.json"), JSON.stringify(document));
}
