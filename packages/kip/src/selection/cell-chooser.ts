import type { CloudDriver, InstanceTypeOffer, LaunchType } from "@kip/cloud";
import { selectInstanceType } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { bytes, KipError } from "@kip/base";
import type { CellSpec } from "../cell/cell.ts";
import type { CellMemory } from "../cell/cell-memory.ts";
import { podResources } from "./pod-resources.ts";

/** What every cell of an installation has in common. */
export interface CellDefaults {
  readonly nodeName: string;
  readonly controllerID: string;
  /** Type for pods that ask for nothing; undefined means the cheapest there is. */
  readonly defaultInstanceType: string | undefined;
  readonly defaultVolumeBytes: number;
  readonly imageSpec: Readonly<Record<string, string>>;
  readonly privateIPOnly: boolean;
}

/** Annotations of a pod that choose its cell; names and meaning are those of the original Kip. */
export const cellAnnotations = {
  instanceType: "pod.elotl.co/instance-type",
  launchType: "pod.elotl.co/launch-type",
  privateIpOnly: "pod.elotl.co/private-ip-only",
  volumeSize: "pod.elotl.co/volume-size",
} as const;

/** Chooses the cell of a pod: the cheapest instance type that fits it. */
export class CellChooser {
  readonly #driver: CloudDriver;
  readonly #defaults: CellDefaults;

  constructor(driver: CloudDriver, defaults: CellDefaults) {
    this.#driver = driver;
    this.#defaults = defaults;
  }

  /** @throws {KipError} `NO_INSTANCE_TYPE_FITS`, `ANNOTATION_INVALID`, or what the cloud says of the image */
  async choose(memory: CellMemory): Promise<CellSpec> {
    const pod = memory.resolved?.pod ?? {};
    const annotations = pod.metadata?.annotations ?? {};
    const launchType = readLaunchType(annotations[cellAnnotations.launchType]);
    const offers = await this.#driver.instanceTypes();
    const offer = this.#select(pod, offers, launchType);
    const volume = annotations[cellAnnotations.volumeSize];
    return {
      podRef: memory.podRef,
      nodeName: this.#defaults.nodeName,
      controllerID: this.#defaults.controllerID,
      instanceType: offer.name,
      launchType,
      image: await this.#driver.resolveImage(this.#defaults.imageSpec),
      rootDiskBytes: volume === undefined ? this.#defaults.defaultVolumeBytes : bytes(volume),
      privateIPOnly:
        this.#defaults.privateIPOnly || annotations[cellAnnotations.privateIpOnly] === "true",
      pricePerHour: offer.pricePerHour[launchType] ?? 0,
      attempt: memory.attempt,
      restartCounts: memory.restartCounts,
    };
  }

  #select(
    pod: Pod,
    offers: readonly InstanceTypeOffer[],
    launchType: LaunchType,
  ): InstanceTypeOffer {
    const annotation = pod.metadata?.annotations?.[cellAnnotations.instanceType];
    const asked = podResources(pod);
    const asksNothing = asked.cpuMilli === 0 && asked.memoryBytes === 0 && asked.gpus === 0;
    const isGlob = annotation?.includes("*") ?? false;
    const exact = annotation !== undefined && !isGlob ? annotation : undefined;
    const type = exact ?? (asksNothing && !isGlob ? this.#defaults.defaultInstanceType : undefined);
    return selectInstanceType(offers, {
      ...(type === undefined ? asked : { cpuMilli: 0, memoryBytes: 0, gpus: 0 }),
      ...(type !== undefined && { typeGlob: type }),
      ...(isGlob && annotation !== undefined && { typeGlob: annotation }),
      launchType,
    });
  }
}

function readLaunchType(text: string | undefined): LaunchType {
  const value = text?.toLowerCase() ?? "on-demand";
  if (value === "on-demand" || value === "spot" || value === "dedicated") return value;
  throw new KipError(
    "ANNOTATION_INVALID",
    `Cannot read annotation "${cellAnnotations.launchType}": "${text ?? ""}" is no launch type`,
    {
      remedy: 'Write "spot" or "dedicated", or leave the annotation out',
    },
  );
}
