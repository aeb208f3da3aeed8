import { CloudError, type Architecture, type CloudDriver, type LaunchType } from "@kip/cloud";
import { ProviderError } from "../errors.ts";
import type { CellClaim, CellSpec, StandbySpec } from "../state/cell.ts";
import type { CellDefaults } from "./cell-chooser.ts";
import { haveSameExtras, launchExtras } from "./launch-extras.ts";

/** A configured number of identical standby cells. */
export interface StandbyPool {
  readonly instanceType: string;
  /** How many wait for a pod at any time, 0 or more. */
  readonly count: number;
  readonly launchType: LaunchType;
  /** @default the driver's */
  readonly zone: string | undefined;
  /** @default that of all cells */
  readonly privateIPOnly: boolean | undefined;
  /** Name of one of the images that pods may choose. @default the image of all cells */
  readonly bootImage: string | undefined;
}

/**
 * The machine of a pool.
 *
 * @throws {ProviderError} `STANDBY_POOL_INVALID` if there is no such machine
 * @throws {CloudError} if the cloud does not respond
 */
export async function standbySpec(
  pool: StandbyPool,
  defaults: CellDefaults,
  driver: CloudDriver,
): Promise<StandbySpec> {
  const { nodeName, controllerID, defaultVolumeBytes } = defaults;
  const { instanceType, launchType, zone = driver.zone } = pool;
  const zones = driver.zones ?? [driver.zone];
  if (!zones.includes(zone)) {
    const names = zones.map((each) => `"${each}"`).join(", ");
    throw invalid(pool, `machines are in zone ${names}, not in "${zone}"`);
  }
  const offers = await driver.instanceTypes();
  const offer = offers.find(({ name }) => name === instanceType);
  const pricePerHour = offer?.pricePerHour[launchType];
  if (pricePerHour === undefined) throw invalid(pool, "the cloud does not offer it");
  return {
    nodeName,
    controllerID,
    instanceType,
    launchType,
    ...(driver.zones && { zone }),
    image: await imageOf(pool, offer?.architecture, defaults, driver),
    rootDiskBytes: defaultVolumeBytes,
    privateIPOnly: defaults.privateIPOnly || pool.privateIPOnly === true,
    ...launchExtras({}, defaults, driver),
    pricePerHour,
    standby: true,
  };
}

async function imageOf(
  pool: StandbyPool,
  architecture: Architecture | undefined,
  { imageSpec, bootImages = {} }: CellDefaults,
  driver: CloudDriver,
): Promise<string> {
  const { bootImage } = pool;
  const isNamed = bootImage !== undefined && Object.hasOwn(bootImages, bootImage);
  const spec = bootImage === undefined ? imageSpec : isNamed ? bootImages[bootImage] : undefined;
  if (!spec) throw invalid(pool, `there is no image "${bootImage}" in cells.bootImages`);
  try {
    return await driver.resolveImage(spec, architecture);
  } catch (error) {
    if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error;
    throw invalid(pool, "the cloud does not have its image", error);
  }
}

function invalid(
  { instanceType, launchType }: StandbyPool,
  why: string,
  cause?: unknown,
): ProviderError {
  const message = `Cannot keep standby cells of type "${instanceType}", ${launchType}: ${why}`;
  return new ProviderError("STANDBY_POOL_INVALID", message, {
    cause,
    remedy: "Correct cells.standbyCells in provider.yaml",
  });
}

/** The machine that a pod would get. */
export interface WantedMachine {
  readonly spec: CellSpec;
  /** Allowed zones of the pod. */
  readonly zones: readonly string[];
  /** The pod's labels. @default none */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/**
 * Whether a standby cell is what a pod would get: the same type, launch type, image, kind of address, instance profile and
 * groups, in an allowed zone. So a pod gets the same machine at the same price with and without standby cells. A disk that is
 * too small is enlarged.
 */
export function fits({ spec, zones }: WantedMachine, standby: StandbySpec): boolean {
  return (
    standby.instanceType === spec.instanceType &&
    standby.launchType === spec.launchType &&
    standby.image === spec.image &&
    standby.privateIPOnly === spec.privateIPOnly &&
    haveSameExtras(standby, spec) &&
    (standby.zone === undefined || zones.includes(standby.zone))
  );
}

/** The disk size that the pod needs, bytes, if the standby cell's is smaller. */
export function largerDisk(
  { spec }: WantedMachine,
  { rootDiskBytes }: StandbySpec,
): Pick<CellClaim, "rootDiskBytes" | "launchedDiskBytes"> {
  if (spec.rootDiskBytes <= rootDiskBytes) return {};
  return { rootDiskBytes: spec.rootDiskBytes, launchedDiskBytes: rootDiskBytes };
}

/** A key that is equal for the specs of interchangeable standby cells. */
export function poolKey(spec: StandbySpec): string {
  const { instanceType, launchType, zone, image, privateIPOnly, rootDiskBytes } = spec;
  const { instanceProfile, securityGroups } = spec;
  const machine = [instanceType, launchType, zone, image, privateIPOnly, rootDiskBytes];
  return JSON.stringify([...machine, instanceProfile, securityGroups]);
}
