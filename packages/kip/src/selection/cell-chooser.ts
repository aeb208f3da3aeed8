import type { CapacityScope, CloudDriver, LaunchType } from "@kip/cloud";
import {
  InstanceTypeError,
  rankInstanceTypes,
  type Candidate,
  type InstanceTypeOffers,
  type InstanceTypeRequest,
  type OfferedInstanceType,
} from "@kip/instance-types";
import type { Pod } from "@kip/k8s-types";
import { formatBytes, isCodedError } from "@kip/base";
import { cellConstraints, type CellConstraints } from "../annotations/read-annotations.ts";
import { ProviderError } from "../errors.ts";
import type { CellSpec, StandbySpec } from "../state/cell.ts";
import type { PodRef } from "../state/cell-state.ts";
import {
  offersWithResources,
  resourcesOfType,
  type ExtendedResources,
} from "./extended-resources.ts";
import { instanceTypeRequest } from "./instance-type-request.ts";
import { hugePageBytes, requestedDiskBytes, type ResourceAmounts } from "./pod-requests.ts";
import type { Placement } from "./shortages.ts";
import { launchExtras } from "./launch-extras.ts";
import { checkPrice } from "./price-limit.ts";
import { selectByLaunchType } from "./select-by-launch-type.ts";
import { standbySpec, type StandbyPool } from "./standby-spec.ts";

/** Settings of all cells of an installation. */
export interface CellDefaults {
  readonly nodeName: string;
  readonly controllerID: string;
  /** Type for pods without requests and limits. @default the cheapest */
  readonly defaultInstanceType: string | undefined;
  readonly defaultVolumeBytes: number;
  readonly imageSpec: Readonly<Record<string, string>>;
  /** Images that pods may choose by name. @default none */
  readonly bootImages?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly privateIPOnly: boolean;
  /** Instance profile of cells whose pods name no other one, if the cloud has instance profiles. @default none */
  readonly instanceProfile?: string | undefined;
  /** Architecture of pods that do not name one. @default amd64, or arm64 if the cloud has nothing else */
  readonly architecture?: string | undefined;
  /** Extended resources of instance types. @default none */
  readonly extendedResources?: ExtendedResources | undefined;
}

/** A pod that needs a cell. */
export interface CellRequest {
  readonly podRef: PodRef;
  readonly pod: Pod;
  /** Number of earlier cells of the pod. */
  readonly attempt: number;
  /** Restart counts of its containers on those, by name. */
  readonly restartCounts: Readonly<Record<string, number>>;
  /** Machines for which the cloud has no capacity. The next best one is chosen. @default none */
  readonly unavailable?: readonly CapacityScope[] | undefined;
}

/** Chooses the cell of a pod: the cheapest instance type that fits it. */
export class CellChooser {
  readonly #driver: CloudDriver;
  readonly #defaults: () => CellDefaults;

  /** @param defaults returns the current defaults, which may change */
  constructor(driver: CloudDriver, defaults: () => CellDefaults) {
    this.#driver = driver;
    this.#defaults = defaults;
  }

  /**
   * @throws {ProviderError} `ANNOTATION_INVALID`, `PRICE_ABOVE_LIMIT`; also `NO_INSTANCE_TYPE_FITS`, `QUANTITY_INVALID`, or the
   * cloud's error for the image
   */
  async choose({
    podRef,
    pod,
    attempt,
    restartCounts,
    unavailable,
  }: CellRequest): Promise<CellSpec> {
    const constraints = cellConstraints(pod);
    const { nodeName, controllerID, privateIPOnly } = this.#defaults();
    const { launchType, ...chosen } = await this.#select(pod, constraints, unavailable);
    checkPrice({ ...chosen, launchType }, constraints);
    const [zone] = chosen.zones ?? [];
    return {
      podRef,
      nodeName,
      controllerID,
      instanceType: chosen.type.name,
      launchType,
      ...(this.#driver.zones && zone !== undefined && { zone }),
      image: await this.#driver.resolveImage(
        this.#imageSpec(constraints),
        chosen.type.architecture,
      ),
      rootDiskBytes: this.#diskBytes(pod, constraints),
      privateIPOnly: privateIPOnly || constraints.privateIpOnly,
      ...launchExtras(constraints, this.#defaults(), this.#driver),
      pricePerHour: chosen.pricePerHour,
      attempt,
      restartCounts,
    };
  }

  /**
   * The machine of a pool of standby cells: the one that a pod would get if {@link choose} selected this type.
   *
   * @throws {ProviderError} `STANDBY_POOL_INVALID`; errors of the cloud
   */
  async standbySpec(pool: StandbyPool): Promise<StandbySpec> {
    return await standbySpec(pool, this.#defaults(), this.#driver);
  }

  /** The allowed zones of a pod. @throws {ProviderError} `ANNOTATION_INVALID` */
  zonesOf(pod: Pod): readonly string[] {
    return this.#zones(cellConstraints(pod));
  }

  /**
   * Type, launch type and zone of the machine that {@link choose} would choose.
   *
   * @throws like `choose`
   */
  async placementOf(pod: Pod, unavailable: readonly CapacityScope[]): Promise<Placement> {
    const constraints = cellConstraints(pod);
    const { launchType, ...chosen } = await this.#select(pod, constraints, unavailable);
    checkPrice({ ...chosen, launchType }, constraints);
    const [zone = this.#driver.zone] = chosen.zones ?? [];
    return { instanceType: chosen.type.name, zone, launchType };
  }

  /**
   * The machines that {@link choose} would choose one after the other if there was no capacity of those before, with the pod's
   * price limit. None if no machine fits.
   *
   * @throws {ProviderError} `ANNOTATION_INVALID`; errors of the cloud
   */
  async placementsOf(pod: Pod): Promise<Iterable<Placement>> {
    const constraints = cellConstraints(pod);
    const { offers, requests } = await this.#search(pod, constraints, { isShort: true });
    return placements(offers, requests, { ...constraints, usualZone: this.#driver.zone });
  }

  /**
   * Whether {@link choose} would take this machine if all that it prefers to it were short.
   *
   * @throws like `placementsOf`
   */
  async allows(pod: Pod, { instanceType, zone, launchType }: Placement): Promise<boolean> {
    const constraints = cellConstraints(pod);
    if (!constraints.launchTypes.includes(launchType)) return false;
    const { offers, requests } = await this.#search(pod, constraints, { isShort: true });
    // One by one, because a machine may cost less than one of those before that is above the price limit.
    const ofType = { ...constraints, launchTypes: [launchType], usualZone: this.#driver.zone };
    return requests.some((request) =>
      placements(offers, [request], ofType).some(
        (each) => each.instanceType === instanceType && each.zone === zone,
      ),
    );
  }

  /**
   * Resources of a pod's machine: of this type, or of the one that {@link choose} would choose. Undefined if the type is not on
   * offer, which `choose` reports. As in a kubelet, memory excludes the pod's huge pages.
   */
  async sizeOf(
    pod: Pod,
    instanceType?: string,
  ): Promise<Readonly<Record<string, string>> | undefined> {
    try {
      const constraints = cellConstraints(pod);
      const offer =
        instanceType === undefined
          ? (await this.#select(pod, constraints)).type
          : await this.#typeNamed(instanceType);
      return (
        offer && {
          cpu: `${offer.cpuMilli}m`,
          memory: formatBytes(Math.max(0, offer.memoryBytes - hugePageBytes(pod))),
          "ephemeral-storage": formatBytes(this.#diskBytes(pod, constraints)),
        }
      );
    } catch (error) {
      if (isCodedError(error) && !error.retryable) return undefined;
      throw error;
    }
  }

  /** The configured extended resources of an instance type. */
  extendedResourcesOf(instanceType: string): ResourceAmounts {
    return resourcesOfType(this.#defaults().extendedResources ?? {}, instanceType);
  }

  async #typeNamed(name: string): Promise<OfferedInstanceType | undefined> {
    const found = (await this.#driver.instanceTypes()).find((each) => each.name === name);
    const families = (await this.#driver.customFamilies?.()) ?? [];
    const any = { cpuMilli: 0, memoryBytes: 0, gpus: 0, architectures: ["amd64", "arm64"] };
    const request = { ...any, typeGlob: name, launchTypes: ["on-demand", "spot", "dedicated"] };
    return found ?? rankInstanceTypes({ types: [], families }, request).next().value?.type;
  }

  #zones({ zone }: CellConstraints): readonly string[] {
    const zones = this.#driver.zones ?? [this.#driver.zone];
    if (zone === undefined) return zones;
    if (zones.includes(zone)) return [zone];
    const where = `zone${zones.length > 1 ? "s" : ""} ${zones.map((each) => `"${each}"`).join(", ")}`;
    throw invalid("zone", `machines are in ${where}, not in "${zone}"`, {
      remedy: `Write ${zones.length > 1 ? "one of these zones" : "that zone"}, or remove the annotation`,
    });
  }

  /**
   * The annotation's disk size, or the default, which has room for images, plus the ephemeral storage that the pod requests.
   */
  #diskBytes(pod: Pod, { rootDiskBytes }: CellConstraints): number {
    if (rootDiskBytes !== undefined) return rootDiskBytes;
    return this.#defaults().defaultVolumeBytes + requestedDiskBytes(pod);
  }

  #imageSpec({ bootImage }: CellConstraints): Readonly<Record<string, string>> {
    const { imageSpec, bootImages = {} } = this.#defaults();
    if (bootImage === undefined) return imageSpec;
    const named = Object.hasOwn(bootImages, bootImage) ? bootImages[bootImage] : undefined;
    if (named) return named;
    const names = Object.keys(bootImages).sort();
    throw invalid("boot-image", `there is no image "${bootImage}" in cells.bootImages`, {
      remedy:
        names.length === 0
          ? "Name it there in provider.yaml, or remove the annotation"
          : `Write one of ${names.join(", ")}`,
    });
  }

  /** Selects from the first launch type for which there is a machine. */
  async #select(
    pod: Pod,
    constraints: CellConstraints,
    unavailable: readonly CapacityScope[] = [],
  ): Promise<Candidate & { readonly launchType: LaunchType }> {
    const isShort = unavailable.length > 0;
    const { offers, requests } = await this.#search(pod, constraints, { isShort });
    let failure: unknown;
    for (const request of requests) {
      try {
        return selectByLaunchType(offers, { ...request, unavailable }, constraints.launchTypes);
      } catch (error) {
        if (!InstanceTypeError.is(error, "NO_INSTANCE_TYPE_FITS")) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  /** The machines among which to select for a pod, and what to request of them, the first choice first. */
  async #search(
    pod: Pod,
    constraints: CellConstraints,
    { isShort }: { readonly isShort: boolean },
  ): Promise<Search> {
    const zones = this.#zones(constraints);
    const { defaultInstanceType, extendedResources = {}, architecture } = this.#defaults();
    const offers = await this.#driver.instanceTypes();
    const { instanceType } = constraints;
    const isNamed = instanceType !== undefined && !instanceType.includes("*");
    const ofNode = architecture === undefined ? usualProcessors(offers) : [architecture];
    // A type that the pod names in full determines the architecture.
    const processors = isNamed ? undefined : ofNode;
    const types = offersWithResources(offers, pod, extendedResources);
    const isAnyType = types === offers;
    // Custom sizes are left out, because their extended resources are not known.
    const families = isAnyType ? await this.#driver.customFamilies?.() : undefined;
    // The default type is for pods that request nothing.
    const fallback = isAnyType ? defaultInstanceType : undefined;
    const request = instanceTypeRequest(pod, fallback, constraints);
    const requests = [request];
    const usual = types.find(({ name }) => name === fallback);
    const bySize = instanceTypeRequest(pod, undefined, constraints);
    if (isShort && usual && request.typeGlob !== bySize.typeGlob) {
      // If the default type is sold out, use other types of at least its size.
      const { cpuMilli, memoryBytes, architecture: own = "amd64" } = usual;
      const architectures = bySize.architectures ?? [own];
      requests.push({ ...bySize, cpuMilli, memoryBytes, architectures });
    }
    return {
      offers: { types, families },
      requests: requests.map((each) => ({
        ...each,
        architectures: each.architectures ?? processors,
        allowsOtherGpus: !isAnyType,
        zones,
      })),
    };
  }
}

interface Search {
  readonly offers: InstanceTypeOffers;
  readonly requests: readonly InstanceTypeRequest[];
}

/** All machines of a search within the price limit, in the order of preference. */
function* placements(
  offers: InstanceTypeOffers,
  requests: readonly InstanceTypeRequest[],
  {
    launchTypes,
    maxPricePerHour = Infinity,
    usualZone,
  }: Pick<CellConstraints, "launchTypes" | "maxPricePerHour"> & { readonly usualZone: string },
): IteratorObject<Placement, undefined> {
  for (const request of requests)
    for (const launchType of launchTypes)
      for (const machine of rankInstanceTypes(offers, { ...request, launchTypes: [launchType] })) {
        // The pod gets no other machine either, even if one of the next launch type costs less.
        if (machine.pricePerHour > maxPricePerHour) return;
        for (const zone of machine.zones ?? [usualZone])
          yield { instanceType: machine.type.name, zone, launchType };
      }
}

/** Architectures for pods that do not name one, if not amd64. A local cloud may only have arm64. */
function usualProcessors(offers: readonly OfferedInstanceType[]): readonly string[] | undefined {
  const isArm = offers.length > 0 && offers.every((each) => each.architecture === "arm64");
  return isArm ? ["arm64"] : undefined;
}

function invalid(
  name: string,
  reason: string,
  options: { readonly remedy: string },
): ProviderError {
  const message = `Cannot use annotations of this pod: pod.elotl.co/${name}: ${reason}`;
  return new ProviderError("ANNOTATION_INVALID", message, options);
}
