import type { CloudDriver, InstanceTypeOffer, LaunchType } from "@kip/cloud";
import { selectInstanceType } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { bytes, formatBytes, isCodedError, maxGlobLength } from "@kip/base";
import { ProviderError } from "../errors.ts";
import type { CellSpec } from "../state/cell.ts";
import type { PodRef } from "../state/cell-state.ts";
import { podRequests } from "./pod-requests.ts";
import { podResources } from "./pod-resources.ts";

/** Settings of all cells of an installation. */
export interface CellDefaults {
  readonly nodeName: string;
  readonly controllerID: string;
  /** Type for pods without requests and limits. @default the cheapest */
  readonly defaultInstanceType: string | undefined;
  readonly defaultVolumeBytes: number;
  readonly imageSpec: Readonly<Record<string, string>>;
  readonly privateIPOnly: boolean;
}

/** A pod that needs a cell. */
export interface CellRequest {
  readonly podRef: PodRef;
  readonly pod: Pod;
  /** How many cells it had before. */
  readonly attempt: number;
  /** Restarts of its containers on them, by name. */
  readonly restartCounts: Readonly<Record<string, number>>;
}

/** Annotations of a pod that choose its cell, as in the original Kip. */
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

  /** @throws {ProviderError} `ANNOTATION_INVALID`; with `NO_INSTANCE_TYPE_FITS`, `QUANTITY_INVALID`, or what the cloud reports of the image */
  async choose({ podRef, pod, attempt, restartCounts }: CellRequest): Promise<CellSpec> {
    const annotations = pod.metadata.annotations ?? {};
    const launchType = readLaunchType(annotations[cellAnnotations.launchType]);
    const offers = await this.#driver.instanceTypes();
    const offer = this.#select(pod, offers, launchType);
    return {
      podRef,
      nodeName: this.#defaults.nodeName,
      controllerID: this.#defaults.controllerID,
      instanceType: offer.name,
      launchType,
      image: await this.#driver.resolveImage(this.#defaults.imageSpec),
      rootDiskBytes: this.#diskBytes(pod),
      privateIPOnly:
        this.#defaults.privateIPOnly || annotations[cellAnnotations.privateIpOnly] === "true",
      pricePerHour: offer.pricePerHour[launchType] ?? 0,
      attempt,
      restartCounts,
    };
  }

  /**
   * What the machine of a pod offers: of this type, or of the one that {@link choose} takes. Undefined if there is no
   * such type now, which `choose` reports.
   */
  async sizeOf(
    pod: Pod,
    instanceType?: string,
  ): Promise<Readonly<Record<string, string>> | undefined> {
    const annotations = pod.metadata.annotations ?? {};
    try {
      const offers = await this.#driver.instanceTypes();
      const offer =
        instanceType === undefined
          ? this.#select(pod, offers, readLaunchType(annotations[cellAnnotations.launchType]))
          : offers.find(({ name }) => name === instanceType);
      return (
        offer && {
          cpu: `${offer.cpuMilli}m`,
          memory: formatBytes(offer.memoryBytes),
          "ephemeral-storage": formatBytes(this.#diskBytes(pod)),
        }
      );
    } catch (error) {
      if (isCodedError(error) && !error.retryable) return undefined;
      throw error;
    }
  }

  /** The annotation's size, else the default, which has room for images, and what the pod requests above it. */
  #diskBytes(pod: Pod): number {
    const size = readVolumeSize(pod.metadata.annotations?.[cellAnnotations.volumeSize]);
    if (size !== undefined) return size;
    const requested = podRequests(pod).get("ephemeral-storage") ?? 0;
    return this.#defaults.defaultVolumeBytes + Math.ceil(requested);
  }

  #select(
    pod: Pod,
    offers: readonly InstanceTypeOffer[],
    launchType: LaunchType,
  ): InstanceTypeOffer {
    const annotation = readInstanceType(pod.metadata.annotations?.[cellAnnotations.instanceType]);
    const asked = podResources(pod);
    const asksNothing = asked.cpuMilli === 0 && asked.memoryBytes === 0 && asked.gpus === 0;
    const isGlob = annotation?.includes("*") ?? false;
    const exact = annotation !== undefined && !isGlob ? annotation : undefined;
    const type = exact ?? (asksNothing && !isGlob ? this.#defaults.defaultInstanceType : undefined);
    return selectInstanceType(offers, {
      ...(type === undefined ? asked : { cpuMilli: 0, memoryBytes: 0, gpus: 0 }),
      typeGlob: isGlob ? annotation : type,
      launchType,
    });
  }
}

function readLaunchType(text: string | undefined): LaunchType {
  const value = text?.slice(0, maxShown).toLowerCase() ?? "on-demand";
  if (value === "on-demand" || value === "spot" || value === "dedicated") return value;
  throw invalid(cellAnnotations.launchType, `"${shown(text)}" is not a launch type`, {
    remedy: 'Write "spot" or "dedicated", or leave the annotation out',
  });
}

function readInstanceType(text: string | undefined): string | undefined {
  if (text === undefined || text.length <= maxGlobLength) return text;
  throw invalid(
    cellAnnotations.instanceType,
    `"${shown(text)}" has more than ${maxGlobLength} characters`,
    { remedy: "Write the name of an instance type, or a pattern such as t3.*" },
  );
}

/** Bytes; undefined without the annotation. */
function readVolumeSize(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const size = bytes(text);
  if (size > 0 && Number.isSafeInteger(size)) return size;
  throw invalid(cellAnnotations.volumeSize, `"${shown(text)}" is not the size of a disk`, {
    remedy: "Write for example 20Gi",
  });
}

/** How much of an annotation is in a message, characters; it may have 256 KiB. */
const maxShown = 64;

function shown(text = ""): string {
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
}

function invalid(annotation: string, reason: string, options: { remedy: string }): ProviderError {
  return new ProviderError(
    "ANNOTATION_INVALID",
    `Cannot read annotation "${annotation}": ${reason}`,
    options,
  );
}
