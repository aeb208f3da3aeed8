import { silentLogger, systemClock, type Clock, type Logger } from "@kip/base";
import { CloudError, type CloudDriver, type InstanceTypeOffer } from "@kip/cloud";
import { openCatalog } from "@kip/instance-types";
import { AwsCloud } from "./aws-cloud.ts";
import type { AwsCloudParts } from "./aws-cloud-parts.ts";
import { credentialsOf, findRegion } from "./connection.ts";
import type { Ec2 } from "./ec2/ec2-calls.ts";
import { openSdkEc2, type Ec2ConnectionOptions } from "./ec2/sdk-ec2.ts";
import { hostedOffers } from "./host/hosted-offers.ts";
import { Hosts } from "./host/hosts.ts";
import { Images } from "./image/images.ts";
import { Instances } from "./instance/instances.ts";
import { Launcher } from "./instance/launcher.ts";
import { Tagger } from "./instance/tagger.ts";
import { Terminator } from "./instance/terminator.ts";
import { InstanceWatch } from "./instance/watch.ts";
import { InterruptionReader } from "./interruption/interruption-reader.ts";
import { Interruptions } from "./interruption/interruptions.ts";
import { openQueue } from "./interruption/queue.ts";
import { openMetadata, type InstanceMetadata } from "./network/metadata.ts";
import { DhcpOptions, vpcCidrs } from "./network/network-facts.ts";
import { findPlace, type PlaceOptions } from "./network/place.ts";
import { Routes } from "./network/routes.ts";
import { Subnets } from "./network/subnets.ts";
import { SecurityGroups } from "./network/security-groups.ts";
import { EcrLogIns } from "./registry/ecr-log-ins.ts";
import { VolumeStore } from "./volume/volume-store.ts";
import { Volumes } from "./volume/volumes.ts";

/** How often to poll EC2, and how long it may lag, milliseconds. */
export interface AwsTimes {
  /** Interval of the checks of awaited instances. @default 2000 */
  readonly pollMs: number;
  /** Interval of the checks for instances that have ended by themselves. @default 15000 */
  readonly endsMs: number;
  /** How long the first of several calls waits for others to share a call. @default 20 */
  readonly batchMs: number;
  /** Maximum time that responses may lack something new. @default 60000 */
  readonly consistencyMs: number;
  /** Minimum age of a dedicated host without instances before it is given back. @default 120000 */
  readonly hostAgeMs: number;
}

/** Options of {@link openAwsCloud}. */
export interface AwsCloudOptions extends PlaceOptions, Omit<Ec2ConnectionOptions, "region"> {
  readonly owner: string;
  /** `AWS_REGION` and `AWS_DEFAULT_REGION` take precedence. @default this machine's region, from its metadata */
  readonly region?: string | undefined;
  /** URL of the ECR API. @default the one of each registry's region */
  readonly registryEndpointURL?: string | undefined;
  /**
   * URL of an SQS queue to which EventBridge sends interruption notices. @default none, so interruptions come without notice
   */
  readonly interruptionQueueURL?: string | undefined;
  /** Ranges besides those of the VPC that may reach cells, and that pods reach with their own addresses. @default none */
  readonly extraCIDRs?: readonly string[] | undefined;
  /** IDs of further security groups of cells. @default none */
  readonly extraSecurityGroups?: readonly string[] | undefined;
  /** Whether a launch may ask for routes of address ranges to its instance. @default false */
  readonly podRoutes?: boolean | undefined;
  /** Whether dedicated instances run on hosts that the driver allocates, instead of using dedicated tenancy. @default false */
  readonly dedicatedHosts?: boolean | undefined;
  /** Whether instances also get IPv6 addresses in subnets that have an IPv6 range. @default false */
  readonly ipv6?: boolean | undefined;
  /** Whether EC2 drops a cell's packets with addresses other than its own. @default true */
  readonly sourceDestCheck?: boolean | undefined;
  /** A file of types and prices that adds to the built-in list, which does not have all regions. @default none */
  readonly priceFile?: string | undefined;
  /** `false`: the caller launches nothing and needs no types and prices. @default true */
  readonly launches?: boolean | undefined;
  readonly times?: Partial<AwsTimes> | undefined;
  /**
   * `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID` and the metadata service's variables. The SDK reads others itself.
   * @default none
   */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
  /** @default this machine's */
  readonly metadata?: InstanceMetadata | undefined;
  /** Ends the opening. The opened driver does not use it. @default never */
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
}

const defaultTimes: AwsTimes = {
  pollMs: 2000,
  endsMs: 15_000,
  batchMs: 20,
  consistencyMs: 60_000,
  hostAgeMs: 120_000,
};

/**
 * Opens the EC2 driver of one owner, and finds out where its cells run. Creates nothing: the security group is created when the
 * first cell needs it.
 *
 * @throws {InstanceTypeError} `CATALOG_UNKNOWN` for a region without types and prices, `PRICE_FILE_INVALID`
 * @throws {CloudError} `CLOUD_AUTH`, `CLOUD_NOT_FOUND` without a region or subnet, `CLOUD_INVALID_REQUEST` with several subnets
 * none of which is named or marked
 * @throws the signal's reason
 */
export async function openAwsCloud(options: AwsCloudOptions): Promise<CloudDriver> {
  const metadata = options.metadata ?? openMetadata(options.environment);
  const region = await findRegion(options, metadata);
  // Before AWS is called, because this finds a mistake in the region's name.
  const known = options.launches === false ? [] : offersOf(region, options.priceFile);
  const ec2 = await openSdkEc2({ ...options, region, credentials: credentialsOf(options) });
  try {
    const { dedicatedHosts = false, logger = silentLogger, signal } = options;
    const asked = untilAbort(ec2, signal);
    const place = await findPlace(asked, options, metadata);
    const isAsked = dedicatedHosts && known.length > 0;
    const offers = isAsked ? await hostedOffers(asked, known, logger) : known;
    signal?.throwIfAborted();
    return new AwsCloud(assemble(options, { ec2, region, place, offers }));
  } catch (error) {
    ec2[Symbol.dispose]();
    throw error;
  }
}

/** The same EC2, whose calls end when the signal aborts. */
function untilAbort(ec2: Ec2, signal: AbortSignal | undefined): Ec2 {
  return {
    call: async (action, input, options) => await ec2.call(action, input, { ...options, signal }),
    [Symbol.dispose]: () => ec2[Symbol.dispose](),
  };
}

/** Creates the parts of a driver on this EC2. */
export function assemble(
  options: AwsCloudOptions,
  { ec2, region, place, offers }: Pick<AwsCloudParts, "ec2" | "region" | "place" | "offers">,
): AwsCloudParts {
  const { owner, clock = systemClock, logger = silentLogger } = options;
  const {
    pollMs,
    endsMs,
    batchMs,
    consistencyMs,
    hostAgeMs: minAgeMs,
  } = { ...defaultTimes, ...options.times };
  const closed = new AbortController();
  const { signal } = closed;
  const subnets = new Subnets({ ec2, subnets: place.subnets, clock, logger });
  const images = new Images(ec2, clock);
  const instances = new Instances({ ec2, owner, clock, consistencyMs, batchMs, pollMs });
  const routes = new Routes({ ec2, instances, vpcId: place.vpcId, clock, logger, signal });
  const interruptions = new Interruptions(instances);
  const store = new VolumeStore({ ec2, owner, clock, pollMs, consistencyMs });
  const { dedicatedHosts = false, launches = true } = options;
  // A driver that launches nothing cleans up. It must also see hosts from a time when the option was set.
  const hosts =
    dedicatedHosts || !launches
      ? new Hosts({ ec2, owner, clock, logger, pollMs, consistencyMs, minAgeMs })
      : undefined;
  const securityGroups = new SecurityGroups({
    ec2,
    owner,
    vpcId: place.vpcId,
    extraCIDRs: options.extraCIDRs ?? [],
    extraGroups: options.extraSecurityGroups ?? [],
    vpcCidrs: async () => await vpcCidrs(ec2, place.vpcId),
    logger,
  });
  return {
    ec2,
    region,
    place,
    subnets,
    offers,
    images,
    instances,
    consistencyMs,
    interruptions,
    interruptionReader: readerOf(options, { ec2, region, instances, interruptions, signal }),
    registries: new EcrLogIns({
      region,
      credentials: credentialsOf(options),
      endpointURL: options.registryEndpointURL,
    }),
    store,
    launcher: new Launcher({
      ec2,
      owner,
      subnets,
      images,
      instances,
      securityGroups,
      hosts: dedicatedHosts ? hosts : undefined,
      ipv6: options.ipv6 ?? false,
      clock,
      consistencyMs,
    }),
    terminator: new Terminator({
      ec2,
      instances,
      release: async (id) => {
        if (instances.hasRoutes(id)) await routes.remove(id);
      },
      clock,
      batchMs,
    }),
    tagger: new Tagger({ ec2, instances, clock, batchMs }),
    watch: new InstanceWatch({ instances, clock, logger, pollMs, endsMs, signal }),
    volumes: new Volumes({ ec2, owner, zone: subnets.zones[0] ?? "", store, instances, clock }),
    extraCIDRs: options.extraCIDRs ?? [],
    dhcp: new DhcpOptions(ec2),
    hosts,
    routes,
    podRoutes: options.podRoutes ?? false,
    sourceDestCheck: options.sourceDestCheck ?? true,
    close: () => {
      closed.abort(new CloudError("CLOUD_UNAVAILABLE", "Cannot wait: the driver was closed"));
      ec2[Symbol.dispose]();
    },
  };
}

/** The reader of the interruption queue, if there is one. */
function readerOf(
  options: AwsCloudOptions,
  parts: Pick<AwsCloudParts, "ec2" | "region" | "instances" | "interruptions"> & {
    readonly signal: AbortSignal;
  },
): InterruptionReader | undefined {
  const { interruptionQueueURL: url, clock = systemClock, logger = silentLogger } = options;
  if (url === undefined) return undefined;
  const { region } = parts;
  const credentials = credentialsOf(options);
  const open = async () => await openQueue({ url, region, credentials });
  return new InterruptionReader({ ...parts, open, clock, logger });
}

/** Types that the region sells, from the built-in list and the file. */
function offersOf(region: string, priceFile: string | undefined): readonly InstanceTypeOffer[] {
  return openCatalog("aws", region, { priceFile }).types.filter(
    ({ name }) => !name.startsWith("t1."),
  );
}
