import type { CapacityScope, CloudDriver } from "@kip/cloud";
import { selectInstanceType, type Candidate } from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { formatBytes, isCodedError } from "@kip/base";
import type { CellSpec } from "../state/cell.ts";
import type { PodRef } from "../state/cell-state.ts";
import { cellAnnotations, readVolumeSize } from "./cell-annotations.ts";
import { instanceTypeRequest, readLaunchType } from "./instance-type-request.ts";
import {
  offersWithResources,
  resourcesOfType,
  type ExtendedResources,
} from "./extended-resources.ts";
import { hugePageBytes, podRequests, type ResourceAmounts } from "./pod-requests.ts";

/** Settings of all cells of an installation. */
export interface CellDefaults {
  readonly nodeName: string;
  readonly controllerID: string;
  /** Type for pods without requests and limits. @default the cheapest */
  readonly defaultInstanceType: string | undefined;
  readonly defaultVolumeBytes: number;
  readonly imageSpec: Readonly<Record<string, string>>;
  readonly privateIPOnly: boolean;
  /** What types have besides. @default nothing */
  readonly extendedResources?: ExtendedResources | undefined;
}

/** A pod that needs a cell. */
export interface CellRequest {
  readonly podRef: PodRef;
  readonly pod: Pod;
  /** How many cells it had before. */
  readonly attempt: number;
  /** Restarts of its containers on them, by name. */
  readonly restartCounts: Readonly<Record<string, number>>;
  /** What the cloud had no capacity of: the next best is chosen. @default nothing */
  readonly unavailable?: readonly CapacityScope[] | undefined;
}

/** Chooses the cell of a pod: the cheapest instance type that fits it. */
export class CellChooser {
  readonly #driver: CloudDriver;
  readonly #defaults: () => CellDefaults;

  /** @param defaults asked for each cell: they may change */
  constructor(driver: CloudDriver, defaults: () => CellDefaults) {
    this.#driver = driver;
    this.#defaults = defaults;
  }

  /** @throws {ProviderError} `ANNOTATION_INVALID`; with `NO_INSTANCE_TYPE_FITS`, `QUANTITY_INVALID`, or what the cloud reports of the image */
  async choose({
    podRef,
    pod,
    attempt,
    restartCounts,
    unavailable,
  }: CellRequest): Promise<CellSpec> {
    const annotations = pod.metadata.annotations ?? {};
    const chosen = await this.#select(pod, unavailable);
    return {
      podRef,
      nodeName: this.#defaults().nodeName,
      controllerID: this.#defaults().controllerID,
      instanceType: chosen.type.name,
      launchType: readLaunchType(chosen.launchType),
      image: await this.#driver.resolveImage(this.#defaults().imageSpec),
      rootDiskBytes: this.#diskBytes(pod),
      privateIPOnly:
        this.#defaults().privateIPOnly || annotations[cellAnnotations.privateIpOnly] === "true",
      pricePerHour: chosen.pricePerHour,
      attempt,
      restartCounts,
    };
  }

  /**
   * What the machine of a pod offers: of this type, or of the one that {@link choose} takes. Undefined if there is no
   * such type now, which `choose` reports. Memory is without the pod's huge pages, as with a kubelet.
   */
  async sizeOf(
    pod: Pod,
    instanceType?: string,
  ): Promise<Readonly<Record<string, string>> | undefined> {
    try {
      const offer =
        instanceType === undefined
          ? (await this.#select(pod)).type
          : (await this.#driver.instanceTypes()).find(({ name }) => name === instanceType);
      return (
        offer && {
          cpu: `${offer.cpuMilli}m`,
          memory: formatBytes(Math.max(0, offer.memoryBytes - hugePageBytes(pod))),
          "ephemeral-storage": formatBytes(this.#diskBytes(pod)),
        }
      );
    } catch (error) {
      if (isCodedError(error) && !error.retryable) return undefined;
      throw error;
    }
  }

  /** What an instance type has of extended resources, by configuration. */
  extendedResourcesOf(instanceType: string): ResourceAmounts {
    return resourcesOfType(this.#defaults().extendedResources ?? {}, instanceType);
  }

  /** The annotation's size, else the default, which has room for images, and what the pod requests above it. */
  #diskBytes(pod: Pod): number {
    const size = readVolumeSize(pod.metadata.annotations?.[cellAnnotations.volumeSize]);
    if (size !== undefined) return size;
    const requested = podRequests(pod).get("ephemeral-storage") ?? 0;
    return this.#defaults().defaultVolumeBytes + Math.ceil(requested);
  }

  async #select(pod: Pod, unavailable: readonly CapacityScope[] = []): Promise<Candidate> {
    const { defaultInstanceType, extendedResources = {} } = this.#defaults();
    const offers = await this.#driver.instanceTypes();
    const types = offersWithResources(offers, pod, extendedResources);
    // The default is for pods that ask for nothing.
    const request = instanceTypeRequest(pod, types === offers ? defaultInstanceType : undefined);
    return selectInstanceType({ types }, { ...request, zones: [this.#driver.zone], unavailable });
  }
}
