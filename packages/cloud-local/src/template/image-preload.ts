import { runCommand } from "@kip/base";
import type { LaunchImages } from "@kip/cloud";
import { orderLine } from "@kip/cloud-init";
import { freshCloneState } from "./fresh-clone-state.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import { machinePort } from "../network/machine-port.ts";
import type { TemplateFiles } from "./template-record.ts";

/** How a template with images is made of one without. */
export interface ImagePreload {
  /** The template without. */
  readonly base: TemplateFiles;
  readonly images: LaunchImages;
  /** The machines' network: the registry answers there as it does to them. */
  readonly network: LocalNetwork;
}

/** Copies what the machine will write to. It needs the other template no more. */
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

/** The device of the machine that fetches images: it has a place of its own among machines. */
export function preloadDevice({ network: { plan } }: ImagePreload): {
  readonly tap: string;
  readonly mac: string;
} {
  const { device, mac } = machinePort(plan, plan.preloadSlot);
  return { tap: device, mac };
}

/** Makes the device; disposing of the result removes it. */
export async function addPreloadDevice(preload: ImagePreload): Promise<AsyncDisposable> {
  const { network } = preload;
  const { tap } = preloadDevice(preload);
  await network.addTap(tap);
  return { [Symbol.asyncDispose]: async () => await network.removeTap(tap) };
}

/** The order that the machine gets. */
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
