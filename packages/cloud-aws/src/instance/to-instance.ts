import type * as sdk from "@aws-sdk/client-ec2";
import { defined } from "@kip/base";
import type { Instance, InstanceState, LaunchType } from "@kip/cloud";
import { fromTags, ownTags } from "../tags.ts";

/** An instance of EC2 that this driver launched, with what the port's `Instance` leaves out. */
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
  /** `Client.…` or `Server.…`, empty while it runs. */
  readonly reasonCode: string;
  readonly reason: string;
  /** When EC2 takes it back, RFC 3339, if a notice of that has come. */
  readonly interruption: string | undefined;
  readonly subnetId: string;
  /** Ranges that routes must lead to it. */
  readonly routes: readonly string[];
  /** The interface that they lead by, once they are made; also of an instance that has ended. */
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

/** What an answer says of an instance; undefined for one that another program made. */
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

/** What this driver has noted in tags of its own. */
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

/** All of this driver's instances in an answer that groups them by launch. */
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
 * The machine has the interface's primary address, the pod the other one. EC2 tells addresses of IPv6 apart by nothing and may list
 * them in any order: the machine has the first one of the alphabet.
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
