import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";
import type { CellImage } from "@kip/cell-image";
import {
  orderLine,
  clonePort,
  templateArgument,
  type ImagePreload,
  type CloneIdentity,
} from "@kip/cloud-init";
import { Qemu } from "./qemu.ts";

const memory = "512M";
const diskBytes = 3 * 1024 ** 3;

/** A machine that can be cloned. */
export interface Template {
  readonly folder: string;
  readonly image: CellImage;
}

/** The network that QEMU provides to a machine. */
const network = {
  address: "10.0.2.15/24",
  gateway: "10.0.2.2",
  nameservers: ["10.0.2.3", "10.0.2.4"],
};

/**
 * Boots the image as a template, and saves it when it reports that it is waiting.
 *
 * @param images fetched before that; `preload` is the console's output about it
 */
export async function makeTemplate(
  image: CellImage,
  folder: string,
  images?: readonly string[],
): Promise<Template & { readonly preload: readonly string[] }> {
  await mkdir(folder);
  const disk = path.join(folder, "disk.qcow2");
  const overlay = ["-q", "-f", "qcow2", "-b", image.rootDisk, "-F", "raw", disk, `${diskBytes}`];
  await runCommand("qemu-img", ["create", ...overlay]);
  const template = { folder, image };
  await using machine = await Qemu.start(
    folder,
    machineArguments(template, { folder, share: "on" }),
  );
  const word = machine.word();
  await machine.execute("cont");
  if ((await word) !== "template") throw new Error(`The machine said "${await word}"`);
  let preload: readonly string[] = [];
  if (images) {
    const again = machine.word();
    machine.port.write(orderLine(preloadFor(images)));
    if ((await again) !== "template") throw new Error(`The machine said "${await again}"`);
    preload = await machine.told("preload: ", 1);
  }
  await machine.execute("stop");
  await machine.migrate("migrate", `exec:cat >${folder}/state`);
  return { ...template, preload };
}

function preloadFor(images: readonly string[]): ImagePreload {
  return {
    version: 1,
    images,
    pull: "{}",
    unixMs: Date.now(),
    entropy: randomBytes(64).toString("base64"),
    network: { ...network, mac: "02:6b:00:00:00:02" },
  };
}

/** Starts a clone and sends it its identity. `ready` resolves with what it prints then. */
export async function startCopy(
  template: Template,
  name: string,
  options: { readonly userData: string; readonly unixMs?: number; readonly hostPort?: number },
): Promise<{
  readonly machine: Qemu;
  readonly identity: CloneIdentity;
  readonly ready: Promise<string>;
}> {
  const folder = path.join(template.folder, name);
  await mkdir(folder);
  const backing = path.join(template.folder, "disk.qcow2");
  const disk = path.join(folder, "disk.qcow2");
  await runCommand("qemu-img", ["create", "-q", "-f", "qcow2", "-b", backing, "-F", "qcow2", disk]);
  const args = machineArguments(template, {
    folder,
    share: "off",
    ...(options.hostPort !== undefined && { hostPort: options.hostPort }),
  });
  const machine = await Qemu.start(folder, [...args, "-incoming", "defer"]);
  try {
    await machine.migrate("migrate-incoming", `exec:cat ${template.folder}/state`);
    const identity: CloneIdentity = {
      version: 1,
      instanceId: `i-${name}`,
      hostname: name,
      machineId: randomBytes(16).toString("hex"),
      unixMs: options.unixMs ?? Date.now(),
      entropy: randomBytes(64).toString("base64"),
      network: {
        mac: `02:6b:${randomBytes(4)
          .toString("hex")
          .replaceAll(/..(?=.)/g, "$&:")}`,
        ...network,
      },
      userData: options.userData,
    };
    machine.port.write(orderLine(identity));
    const ready = machine.word();
    ready.catch(() => {}); // its callers handle the failure
    await machine.execute("cont");
    return { machine, identity, ready };
  } catch (error) {
    await machine[Symbol.asyncDispose]();
    throw error;
  }
}

function machineArguments(
  { folder, image }: Template,
  own: { readonly folder: string; readonly share: "on" | "off"; readonly hostPort?: number },
): readonly string[] {
  const forward = own.hostPort === undefined ? "" : `,hostfwd=tcp:127.0.0.1:${own.hostPort}-:6421`;
  return [
    [
      "-machine",
      "q35,memory-backend=ram",
      "-accel",
      "tcg,thread=multi",
      "-cpu",
      "max",
      "-m",
      memory,
    ],
    [
      "-object",
      `memory-backend-file,id=ram,size=${memory},mem-path=${folder}/ram,share=${own.share}`,
    ],
    [
      "-kernel",
      image.kernel,
      "-initrd",
      image.initrd,
      "-append",
      `${image.cmdline} ${templateArgument}`,
    ],
    ["-rtc", "base=2020-01-01"],
    ["-drive", `if=virtio,format=qcow2,cache=unsafe,file=${own.folder}/disk.qcow2`],
    // User-mode networking without access to anything outside.
    ["-netdev", `user,id=n,restrict=on${forward}`, "-device", "virtio-net-pci,netdev=n,romfile="],
    ["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"],
    ["-device", `virtserialport,chardev=port,name=${clonePort}`],
  ].flat();
}
