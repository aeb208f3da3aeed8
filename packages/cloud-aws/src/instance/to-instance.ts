import type * as sdk from "@aws-sdk/client-ec2";
import { defined } from "@kip/base";
import type { Instance, InstanceState, LaunchType } from "@kip/cloud";
import { fromTags, ownTags } from "../tags.ts";

/** An EC2 instance that this driver launched, with facts that the port's `Instance` does not have. */
export interface SeenInstance {
  readonly instance: Instance;
  readonly clientToken: string;
  readonly sourceDestCheck: boolean;
  readonly zone: string;
  readonly rootVolume: string | undefined;
  /** IDs of its network interfaces. */
  readonly interfaces: readonly string[];
  /** Device names in use, `/dev/…`. */
  readonly devices: readonly string[];
  /** `Client.…` or `Server.…`. Empty while the instance runs. */
  readonly reasonCode: string;
  readonly reason: string;
  /** When EC2 takes the instance back, RFC 3339. Undefined without a notice. */
  readonly interruption: string | undefined;
  readonly subnetId: string;
  /** Ranges that must be routed to the instance. */
  readonly routes: readonly string[];
  /** The interface of these routes, once they are made. Also known for an ended instance. */
  readonly routedInterface: string | undefined;
}

const states: Readonly<Record<string, InstanceState>> = {
  pending: "pending",
  running: "running",
  "shutting-down": "stopping",
  stopping: "stopping",
  stopped: "stopping",
  terminated: "terminated",
};

/** Reads an instance from a response. Undefined for another program's instance. */
export function toInstance(answer: sdk.Instance): SeenInstance | undefined {
  const tagged = fromTags(answer.Tags);
  if (!tagged || answer.InstanceId === undefined) return undefined;
  const addresses = addressesOf(answer);
  const state = states[answer.State?.Name ?? ""] ?? "pending";
  const reason = answer.StateReason?.Message ?? "";
  const { managementIp, podIp, ipv6 } = addresses;
  const lacksIpv6 = ipv6 === undefined && tagOf(answer, ownTags.ipv6Count) !== undefined;
  const hasAll = managementIp !== undefined && podIp !== undefined && !lacksIpv6;
  const instance = defined({
    id: answer.InstanceId,
    token: tagged.token,
    name: tagged.cell,
    owner: tagged.owner,
    instanceType: answer.InstanceType ?? "",
    launchType: launchTypeOf(answer),
    state: state === "running" && !hasAll ? ("pending" as const) : state,
    ...addresses,
    launchedAt: (answer.LaunchTime ?? new Date(0)).toISOString(),
    tags: tagged.tags,
    stateReason: reason === "" ? undefined : reason,
  });
  return {
    instance,
    clientToken: answer.ClientToken ?? "",
    sourceDestCheck: answer.SourceDestCheck ?? true,
    ...placeOf(answer),
    ...disksOf(answer),
    interfaces: interfacesOf(answer),
    reasonCode: answer.StateReason?.Code ?? "",
    reason,
    ...notesOf(answer),
  };
}

function placeOf({ Placement, SubnetId }: sdk.Instance): Pick<SeenInstance, "zone" | "subnetId"> {
  return { zone: Placement?.AvailabilityZone ?? "", subnetId: SubnetId ?? "" };
}

/** Reads the driver's own tags. */
function notesOf(
  answer: sdk.Instance,
): Pick<SeenInstance, "interruption" | "routes" | "routedInterface"> {
  return {
    interruption: interruptionOf(answer),
    routes: (tagOf(answer, ownTags.routes) ?? "").split(" ").filter((each) => each !== ""),
    routedInterface: tagOf(answer, ownTags.routedInterface),
  };
}

function interruptionOf(answer: sdk.Instance): string | undefined {
  const value = tagOf(answer, ownTags.interruption) ?? "";
  return Number.isNaN(Date.parse(value)) ? undefined : value;
}

function tagOf({ Tags = [] }: sdk.Instance, key: string): string | undefined {
  return Tags.find(({ Key }) => Key === key)?.Value;
}

/** All of this driver's instances in a response that groups them by launch. */
export function instancesOf(
  reservations: readonly sdk.Reservation[] | undefined,
): readonly SeenInstance[] {
  return (reservations ?? [])
    .flatMap(({ Instances = [] }) => Instances)
    .flatMap((each) => toInstance(each) ?? []);
}

function launchTypeOf({ InstanceLifecycle, Placement }: sdk.Instance): LaunchType {
  if (InstanceLifecycle === "spot") return "spot";
  return (Placement?.Tenancy ?? "default") === "default" ? "on-demand" : "dedicated";
}

/**
 * The machine has the interface's primary address, and the pod the other one. EC2 does not mark IPv6 addresses and may list
 * them in any order, so the machine has the first one in sort order.
 */
function addressesOf({
  NetworkInterfaces = [],
  PublicIpAddress,
}: sdk.Instance): Pick<Instance, "managementIp" | "podIp" | "ipv6" | "publicIp"> {
  const first = NetworkInterfaces.find(({ Attachment }) => (Attachment?.DeviceIndex ?? 0) === 0);
  const all = first?.PrivateIpAddresses ?? [];
  const [managementIp, podIp] = (first?.Ipv6Addresses ?? [])
    .flatMap(({ Ipv6Address }) => Ipv6Address ?? [])
    .toSorted();
  return {
    managementIp: all.find(({ Primary }) => Primary === true)?.PrivateIpAddress,
    podIp: all.find(({ Primary }) => Primary !== true)?.PrivateIpAddress,
    ipv6: managementIp !== undefined && podIp !== undefined ? { managementIp, podIp } : undefined,
    publicIp: PublicIpAddress === "" ? undefined : PublicIpAddress,
  };
}

function interfacesOf({ NetworkInterfaces = [] }: sdk.Instance): readonly string[] {
  return NetworkInterfaces.flatMap(({ NetworkInterfaceId }) => NetworkInterfaceId ?? []);
}

function disksOf({
  RootDeviceName,
  BlockDeviceMappings = [],
}: sdk.Instance): Pick<SeenInstance, "rootVolume" | "devices"> {
  const root = BlockDeviceMappings.find(({ DeviceName }) => DeviceName === RootDeviceName);
  return {
    rootVolume: root?.Ebs?.VolumeId,
    devices: BlockDeviceMappings.flatMap(({ DeviceName }) => DeviceName ?? []),
  };
}
