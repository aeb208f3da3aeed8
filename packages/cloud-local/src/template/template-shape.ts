import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import os from "node:os";
import type { LaunchImages } from "@kip/cloud";
import { templateArgument } from "@kip/cloud-init";
import type { LocalImage } from "../host/image.ts";
import type { Accelerator } from "../qemu/accelerator.ts";
import { qemuArguments, type MachineMemory } from "../qemu/qemu-arguments.ts";
import type { QemuFacts } from "../qemu/qemu-version.ts";

/** The common properties of machines that can be copies of the same template. */
export interface MachineShape {
  readonly image: LocalImage;
  readonly cpus: number;
  /** Memory of the machine, including its overhead. */
  readonly memoryBytes: number;
  readonly rootDiskBytes: number;
  readonly qemu: QemuFacts;
  readonly accelerator: Accelerator;
  /** Images that the machine already contains. */
  readonly images?: LaunchImages | undefined;
}

/** The shape without images. */
export function withoutImages(shape: MachineShape): MachineShape {
  const { images, ...rest } = shape;
  return images ? rest : shape;
}

/** Everything that a template depends on, as text for comparing and displaying. */
export type TemplateFacts = Readonly<Record<string, string>>;

/** Increased when templates of earlier versions of kip can no longer be used. */
const formatVersion = "1";

/** Files and names that a machine does not share with others. */
const noFiles = {
  id: "template",
  rootDisk: "disk",
  console: "console",
  control: "control",
  command: "command",
  pid: "pid",
  tap: "cell0",
  mac: "02:6b:00:00:00:01",
  folder: "/",
  user: { uid: 1, gid: 1 },
} as const;

/** Collects the facts that a template of this shape depends on. */
export async function templateFacts(shape: MachineShape): Promise<TemplateFacts> {
  const { image, qemu, accelerator } = shape;
  const [kernel, initrd, rootDisk] = await Promise.all(
    [image.kernel, image.initrd, image.rootDisk].map(identityOf),
  );
  const own: TemplateFacts = {
    format: formatVersion,
    image: image.id,
    kernel: `${image.kernel} ${kernel}`,
    initrd: `${image.initrd} ${initrd}`,
    rootDisk: `${image.rootDisk} ${rootDisk}`,
    rootDiskBytes: String(shape.rootDiskBytes),
    cpus: String(shape.cpus),
    memoryBytes: String(shape.memoryBytes),
    qemu: `${qemu.program} ${qemu.identity} ${qemu.text}`,
    hostKernel: os.release(),
    hostCpu: os.cpus()[0]?.model ?? "",
    accelerator,
    arguments: shapeArguments(shape).join(" "),
  };
  // Absent without images, because it would change the key.
  return shape.images ? { ...own, images: [...shape.images.references].sort().join(" ") } : own;
}

/** A template's name, derived from its facts. */
export function templateKey(facts: TemplateFacts): string {
  const sorted = Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex").slice(0, 16);
}

/** The command line of machines of this shape and of their template. */
export function templateCmdline(image: LocalImage): string {
  return `${image.cmdline} ${templateArgument}`;
}

function shapeArguments({ image, ...shape }: MachineShape): readonly string[] {
  const memory: MachineMemory = { kind: "private", file: "memory" };
  return qemuArguments({
    ...noFiles,
    ...shape,
    architecture: image.architecture,
    qemuVersion: shape.qemu.version,
    memory,
    kernel: "kernel",
    initrd: "initrd",
    cmdline: templateCmdline(image),
    hasPort: true,
  });
}

/** An image's files should never change under its ID. If they do, this shows it. */
async function identityOf(file: string): Promise<string> {
  const { size, mtimeMs } = await stat(file);
  return `${size}:${mtimeMs}`;
}
