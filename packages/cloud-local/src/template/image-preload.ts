import { runCommand } from "@kip/base";
import type { LaunchImages } from "@kip/cloud";
import { orderLine } from "@kip/cloud-init";
import { freshCloneState } from "./fresh-clone-state.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import { machinePort } from "../network/machine-port.ts";
import type { TemplateFiles } from "./template-record.ts";

/** How a template with images is made from one without. */
export interface ImagePreload {
  /** The template without images. */
  readonly base: TemplateFiles;
  readonly images: LaunchImages;
  /** The machines' network, so that the registry answers as it does for machines. */
  readonly network: LocalNetwork;
}

/** Copies the files that the machine writes to. The other template is then no longer needed. */
export async function copyTemplate(
  { base }: ImagePreload,
  draft: Pick<TemplateFiles, "memory" | "disk">,
  signal: AbortSignal,
): Promise<void> {
  for (const file of ["memory", "disk"] as const) {
    const flags = ["--reflink=auto", "--sparse=always"];
    await runCommand("cp", [...flags, base[file], draft[file]], { signal });
  }
}

/** The device of the machine that pulls images. It has a reserved slot. */
export function preloadDevice({ network: { plan } }: ImagePreload): {
  readonly tap: string;
  readonly mac: string;
} {
  const { device, mac } = machinePort(plan, plan.preloadSlot);
  return { tap: device, mac };
}

/** Creates the device. Disposing of the result removes it. */
export async function addPreloadDevice(preload: ImagePreload): Promise<AsyncDisposable> {
  const { network } = preload;
  const { tap } = preloadDevice(preload);
  await network.addTap(tap);
  return { [Symbol.asyncDispose]: async () => await network.removeTap(tap) };
}

/** The order for the machine. */
export async function preloadLine(preload: ImagePreload): Promise<string> {
  const { images, network } = preload;
  const { plan } = network;
  return orderLine({
    version: 1,
    images: images.references,
    pull: images.pull,
    ...freshCloneState(plan, plan.preloadSlot, await network.nameservers()),
  });
}
