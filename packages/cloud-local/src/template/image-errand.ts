import { runCommand } from "@kip/base";
import type { LaunchImages } from "@kip/cloud";
import { orderLine } from "@kip/cloud-init";
import { momentOf } from "../machine/machine-moment.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import { machinePort } from "../network/machine-port.ts";
import type { TemplateFiles } from "./template-record.ts";

/** How a template with images is made of one without. */
export interface ImageErrand {
  /** The template without. */
  readonly base: TemplateFiles;
  readonly images: LaunchImages;
  /** The machines' network: the registry answers there as it does to them. */
  readonly network: LocalNetwork;
}

/** Copies what the machine will write to. It needs the other template no more. */
export async function copyTemplate(
  { base }: ImageErrand,
  draft: Pick<TemplateFiles, "memory" | "disk">,
  signal: AbortSignal,
): Promise<void> {
  for (const file of ["memory", "disk"] as const) {
    const flags = ["--reflink=auto", "--sparse=always"];
    await runCommand("cp", [...flags, base[file], draft[file]], { signal });
  }
}

/** The device of the machine that fetches images: it has a place of its own among machines. */
export function errandDevice({ network: { plan } }: ImageErrand): {
  readonly tap: string;
  readonly mac: string;
} {
  const { device, mac } = machinePort(plan, plan.errandSlot);
  return { tap: device, mac };
}

/** Makes the device; disposing of the result removes it. */
export async function addErrandDevice(errand: ImageErrand): Promise<AsyncDisposable> {
  const { network } = errand;
  const { tap } = errandDevice(errand);
  await network.addTap(tap);
  return { [Symbol.asyncDispose]: async () => await network.removeTap(tap) };
}

/** What the machine is told to do. */
export async function errandLine(errand: ImageErrand): Promise<string> {
  const { images, network } = errand;
  const { plan } = network;
  return orderLine({
    version: 1,
    images: images.references,
    pull: images.pull,
    ...momentOf(plan, plan.errandSlot, await network.nameservers()),
  });
}
