import { mkdir, truncate, writeFile } from "node:fs/promises";
import path from "node:path";

/**
 * Writes an image whose "kernel" is a few instructions: it writes its command line to the serial port, and then idles or resets
 * the machine. It stands for a system that boots instantly, so these tests need neither a Linux kernel nor a root file system.
 */
export async function writeTinyImage(
  imagesDir: string,
  id: string,
  afterwards: "idle" | "reset",
): Promise<void> {
  const folder = path.join(imagesDir, id);
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, "vmlinuz"), multibootKernel(afterwards));
  await writeFile(path.join(folder, "initrd"), "unused");
  await writeFile(path.join(folder, "root.img"), "");
  await truncate(path.join(folder, "root.img"), 2 ** 20);
  const image = {
    schema: 1,
    id,
    kernel: "vmlinuz",
    initrd: "initrd",
    rootDisk: "root.img",
    rootDiskBytes: 2 ** 20,
    cmdline: `tiny-guest=${afterwards}`,
    created: new Date().toISOString(),
  };
  await writeFile(path.join(folder, "image.json"), JSON.stringify(image));
}

const loadAddress = 0x10_0000;

/** @see https://www.gnu.org/software/grub/manual/multiboot/multiboot.html#Header-layout */
function multibootKernel(afterwards: "idle" | "reset"): Buffer {
  const reset = [0xb0, 0x06, 0x66, 0xba, 0xf9, 0x0c, 0xee]; // mov al, 6; mov dx, 0xcf9; out dx, al
  const code = [
    [0x8b, 0x73, 0x10], //             mov esi, [ebx + 16]   (the command line)
    [0x66, 0xba, 0xf8, 0x03], //       mov dx, 0x3f8
    [0xac], //                         next: lodsb
    [0x84, 0xc0], //                   test al, al
    [0x74, 0x03], //                   jz done
    [0xee], //                         out dx, al
    [0xeb, 0xf8], //                   jmp next
    [0xb0, 0x0a, 0xee], //             done: mov al, '\n'; out dx, al
    afterwards === "reset" ? reset : [],
    [0xf4, 0xeb, 0xfd], //             hlt; jmp to the hlt
  ].flat();
  const kernel = Buffer.alloc(512);
  const magic = 0x1bad_b002;
  const flags = 0x0001_0000; // addresses are given below
  const header = [
    magic,
    flags,
    -(magic + flags) >>> 0,
    loadAddress,
    loadAddress,
    0,
    0,
    loadAddress + 32,
  ];
  for (const [index, word] of header.entries()) kernel.writeUInt32LE(word, index * 4);
  kernel.set(code, 32);
  return kernel;
}
