import { isIPv4 } from "node:net";
import path from "node:path";
import {
  type Clock,
  defined,
  type Defined,
  hostArchitecture,
  type Logger,
  silentLogger,
  systemClock,
} from "@kip/base";
import { type Architecture, CloudError, type InstanceTypeOffer } from "@kip/cloud";
import { qemuPrograms } from "../host/architecture.ts";
import { readHostFacts, type HostFacts } from "../host/host-facts.ts";
import { planAddresses } from "../network/address-plan.ts";
import { readCidr } from "../network/cidrs.ts";
import { defaultFirstUserId, lastAccountId, lastUserId } from "../qemu/machine-user.ts";

/** Options of {@link createLocalCloud}. */
export interface LocalCloudOptions {
  /** ID of this kip installation. The driver only lists and changes machines of this owner. */
  readonly owner: string;
  /** Absolute path of a folder that belongs to root. It contains one folder per machine. Created if missing. */
  readonly stateDir: string;
  /** Absolute path of the folder with one folder per image: `<imagesDir>/<id>/image.json`. */
  readonly imagesDir: string;
  /**
   * Name of the network namespace: 1 to 11 lower-case letters, digits or dashes. Each state folder needs a different name.
   * @default "kip"
   */
  readonly namespace?: string | undefined;
  /**
   * Addresses of the local cloud, IPv4 CIDR, /8 to /22: machines in the lower half, pods in the upper half. @default
   * "198.18.0.0/15"
   */
  readonly range?: string | undefined;
  /**
   * Additional IPv6 addresses of the local cloud, CIDR, /16 to /100, with the same layout as {@link range}. @default IPv4 only
   */
  readonly ipv6Range?: string | undefined;
  /** Whether machines can reach what the host can reach. "auto": if slirp4netns is installed. @default "auto" */
  readonly internet?: boolean | "auto" | undefined;
  /** TCP ports of the host, at its address in the range, that machines and pods can reach. @default none */
  readonly hostPorts?: readonly number[] | undefined;
  /** TCP and UDP ports at machines' own addresses that only the host can reach. @default 6421, the agent's */
  readonly managementPorts?: readonly number[] | undefined;
  /**
   * CIDRs of the cluster's Services. Packets to them that no rule routes to an endpoint are refused at once, instead of leaving
   * through the host. @default ["10.96.0.0/16"]
   */
  readonly serviceRanges?: readonly string[] | undefined;
  /**
   * Whether the host reaches these ranges through the namespace, where {@link CloudDriver.routeServices} routes them to
   * endpoints. The host must not have another route to them. @default false
   */
  readonly hostServices?: boolean | undefined;
  /**
   * IPv4 addresses of the host that serve NodePorts by TCP and UDP while {@link CloudDriver.routeServices} runs, in addition to
   * the host's address in the range. "0.0.0.0" means all. Needs {@link LocalCloudOptions.hostServices}. @default none
   */
  readonly nodePortAddresses?: readonly string[] | undefined;
  /**
   * IPv4 address in the network namespace with a metadata service on TCP port 80, which the caller runs. Machines then get no
   * seed disk and are not copied from templates: the image gets its user data from that service. @default none
   */
  readonly metadataAddress?: string | undefined;
  /** Instance types to offer instead of the local cloud's own. @default its own */
  readonly instanceTypes?: readonly InstanceTypeOffer[] | undefined;
  /** The ClusterIP of the DNS server at {@link LocalCloud.clusterDns}. @default none */
  readonly dnsService?: string | undefined;
  /**
   * Architectures of machines. Those other than this computer's are emulated by their own QEMU program. @default this
   * computer's
   */
  readonly architectures?: readonly Architecture[] | undefined;
  /**
   * Program that runs machines of this computer's architecture. @default "qemu-system-x86_64", on arm64 "qemu-system-aarch64"
   */
  readonly qemu?: string | undefined;
  /** "auto" tests KVM with a tiny guest, and falls back to software emulation. @default "auto" */
  readonly accelerator?: "auto" | "kvm" | "tcg" | undefined;
  /** Memory limit for all machines together, bytes. @default the host's memory */
  readonly memoryBytes?: number | undefined;
  /** CPU limit of one machine. @default the host's CPUs */
  readonly cpus?: number | undefined;
  /** Number of CPUs of all machines together, per CPU of the host. Idle ones share. @default 16 */
  readonly cpuOvercommit?: number | undefined;
  /** How many machines may be starting at the same time. Others wait. @default the host's CPUs */
  readonly startsAtOnce?: number | undefined;
  /** Free disk space that each machine needs, or its whole disk if that is smaller, bytes. @default 1 GiB */
  readonly diskReserveBytes?: number | undefined;
  /** Whether to copy machines from templates where possible. @default true */
  readonly templates?: boolean | undefined;
  /** Absolute path of the folder of templates, which local clouds may share. @default `<stateDir>/templates` */
  readonly templatesDir?: string | undefined;
  /** Limit for the disk space of all templates, bytes. @default 8 GiB */
  readonly templateBytes?: number | undefined;
  /**
   * First of the user IDs for QEMU processes, one per machine, above 65535. Nothing else on this computer may use them: it
   * would be ended together with the machine. @default derived from `range`, because every address has one
   */
  readonly firstUserId?: number | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** @default the system clock */
  readonly clock?: Clock | undefined;
}

type OptionalName = "dnsService" | "instanceTypes" | "ipv6Range" | "metadataAddress";

/** {@link LocalCloudOptions} with all defaults. */
export interface ResolvedLocalCloudOptions extends Required<
  Defined<Omit<LocalCloudOptions, "memoryBytes" | "cpus" | OptionalName>>
> {
  readonly metadataAddress?: string | undefined;
  readonly instanceTypes?: readonly InstanceTypeOffer[] | undefined;
  readonly dnsService?: string | undefined;
  readonly ipv6Range?: string | undefined;
  /** The host's resources that machines may use. */
  readonly host: HostFacts;
}

/** Port of a cell's agent, the same on every cloud. */
const agentPort = 6421;

/** The kernel's limit for socket paths, minus the part after the state folder. */
const longestStateDir = 107 - "/machines/.removed-i-0123456789abcdef0/qmp.sock".length;
/** The same for the templates folder. */
const longestTemplatesDir = 107 - "/.draft-0123456789abcdef/state.sock".length;

const defaults = {
  namespace: "kip",
  range: "198.18.0.0/15",
  internet: "auto",
  hostPorts: [],
  managementPorts: [agentPort],
  serviceRanges: ["10.96.0.0/16"],
  hostServices: false,
  nodePortAddresses: [],
  architectures: [hostArchitecture],
  qemu: qemuPrograms[hostArchitecture],
  accelerator: "auto",
  cpuOvercommit: 16,
  diskReserveBytes: 2 ** 30,
  templates: true,
  templateBytes: 2 ** 33,
  logger: silentLogger,
  clock: systemClock,
} as const;

/**
 * Adds the defaults.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export function resolveLocalCloudOptions(options: LocalCloudOptions): ResolvedLocalCloudOptions {
  const host = readHostFacts();
  const { memoryBytes = host.memoryBytes, cpus = host.cpus, ...others } = options;
  const plan = planAddresses(options.range ?? defaults.range, options.ipv6Range);
  const resolved = {
    ...defaults,
    firstUserId: defaultFirstUserId(plan),
    startsAtOnce: host.cpus,
    templatesDir: path.join(options.stateDir, "templates"),
    ...defined(others),
    ...(options.metadataAddress !== undefined && { templates: false }),
  };
  validate(resolved);
  return {
    ...resolved,
    logger: resolved.logger.with({ component: "cloud-local" }),
    host: {
      memoryBytes: Math.min(memoryBytes, host.memoryBytes),
      cpus: Math.min(cpus, host.cpus),
    },
  };
}

function validate(options: Omit<ResolvedLocalCloudOptions, "host">): void {
  const { namespace, stateDir, imagesDir, templatesDir } = options;
  if (!/^[a-z][a-z0-9-]{0,10}$/.test(namespace)) {
    throw invalid(
      `namespace "${namespace}": it is not 1 to 11 lower-case letters, digits or dashes`,
    );
  }
  for (const folder of [stateDir, imagesDir, templatesDir])
    if (!path.isAbsolute(folder)) throw invalid(`folder "${folder}": its path is not absolute`);
  if (stateDir.length > longestStateDir) {
    throw invalid(
      `state folder "${stateDir}": its path has more than ${longestStateDir} characters`,
    );
  }
  if (templatesDir.length > longestTemplatesDir) {
    throw invalid(
      `folder "${templatesDir}" for templates: its path has more than ${longestTemplatesDir} characters`,
    );
  }
  validateAddresses(options);
  if (options.architectures.length === 0) throw invalid("no architectures: name one at least");
  for (const option of ["cpuOvercommit", "startsAtOnce"] as const)
    if (options[option] < 1) throw invalid(`${option} ${options[option]}: it is not 1 or more`);
  const { firstUserId } = options;
  const isInRange = firstUserId > lastAccountId && firstUserId < lastUserId;
  if (!Number.isInteger(firstUserId) || !isInRange)
    throw invalid(`user ID ${firstUserId}: it is not ${lastAccountId + 1} to ${lastUserId - 1}`);
}

function validateAddresses(options: Omit<ResolvedLocalCloudOptions, "host">): void {
  for (const port of [...options.hostPorts, ...options.managementPorts])
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      throw invalid(`port ${port}: it is not 1 to 65535`);
  for (const address of options.nodePortAddresses)
    if (!isIPv4(address)) throw invalid(`address "${address}" for NodePorts: it is not of IPv4`);
  const { metadataAddress } = options;
  if (metadataAddress !== undefined && !isIPv4(metadataAddress))
    throw invalid(`address "${metadataAddress}" for the metadata service: it is not of IPv4`);
  for (const range of options.serviceRanges) readCidr(range);
  if (options.dnsService !== undefined) readCidr(options.dnsService);
}

function invalid(reason: string): CloudError {
  return new CloudError("CLOUD_INVALID_REQUEST", `Cannot use ${reason}`, {
    remedy: "Correct the local cloud's options",
  });
}
