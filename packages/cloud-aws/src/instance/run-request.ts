import { createHash } from "node:crypto";
import type { RunInstancesCommandInput, TagSpecification } from "@aws-sdk/client-ec2";
import { defined } from "@kip/base";
import type { LaunchRequest } from "@kip/cloud";
import type { ImageFacts } from "../image/images.ts";
import { ownTags, toTags } from "../tags.ts";

const GiB = 2 ** 30;
/** One address for the machine, one for its pod. */
export const ipv6Addresses = 2;
/** Types older than C3, R3 and I2 cannot have IPv6 addresses. */
const withoutIpv6 = /^(c1|m[123]|t1)\./;

/** Where to launch an instance. */
export interface RunPlace {
  readonly owner: string;
  readonly subnetId: string;
  readonly securityGroups: readonly string[];
  /** Whether the subnet has a route to the internet through public addresses. */
  readonly isPublic: boolean;
  /** Whether the interface also gets IPv6 addresses, if its type can have them. @default false */
  readonly hasIpv6?: boolean | undefined;
  /** ID of a dedicated host. @default dedicated instances use dedicated tenancy */
  readonly hostId?: string | undefined;
}

/** The request of RunInstances. */
export function runRequest(
  request: LaunchRequest,
  place: RunPlace,
  { image, clientToken, at }: { image: ImageFacts; clientToken: string; at: Date },
): RunInstancesCommandInput {
  const { subnetId, securityGroups, isPublic } = place;
  const hasIpv6 = place.hasIpv6 === true && !withoutIpv6.test(request.instanceType);
  return defined({
    ImageId: request.image,
    // The SDK's type only has some of the catalogue's names.
    InstanceType: request.instanceType as RunInstancesCommandInput["InstanceType"],
    MinCount: 1,
    MaxCount: 1,
    ClientToken: clientToken,
    UserData: Buffer.from(request.userData).toString("base64"),
    // If a pod's machine powers itself off, the machine must not stay and its disk cost money.
    InstanceInitiatedShutdownBehavior: "terminate" as const,
    NetworkInterfaces: [
      {
        DeviceIndex: 0,
        SubnetId: subnetId,
        Groups: [...new Set([...securityGroups, ...(request.securityGroups ?? [])])],
        SecondaryPrivateIpAddressCount: 1,
        ...(hasIpv6 && { Ipv6AddressCount: ipv6Addresses }),
        AssociatePublicIpAddress: isPublic && !request.privateIpOnly,
        DeleteOnTermination: true,
      },
    ],
    BlockDeviceMappings: [rootDisk(request, image)],
    // With a limit of one hop, the pod behind the machine's own network namespace cannot reach the service. An instance with a
    // profile allows one more, because the profile is for the pod.
    MetadataOptions: {
      HttpEndpoint: "enabled" as const,
      // Nothing uses IPv6 here, and a profile's credentials have one access path less.
      HttpProtocolIpv6: "disabled" as const,
      HttpTokens: "required" as const,
      HttpPutResponseHopLimit: request.instanceProfile === undefined ? 1 : 2,
    },
    IamInstanceProfile: profile(request),
    ...market(request, place),
    TagSpecifications: tagSpecifications(request, { ...place, hasIpv6 }, at),
  });
}

/**
 * The client token for EC2, at most 64 characters: the Cell's UID, a mark of the owner, and how many instances of this token
 * have ended before. EC2 keeps a token with the instance that it started, even after the instance has ended.
 */
export function clientTokenOf(owner: string, token: string, generation: number): string {
  const head = token.length <= 40 ? token : hash(token, 40);
  return `${head}-${hash(owner, 12)}-${generation}`;
}

/** The generation passed to {@link clientTokenOf}. */
export function generationOf(clientToken: string): number {
  return Number(/-(\d+)$/.exec(clientToken)?.[1] ?? 0);
}

function hash(text: string, length: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}

function rootDisk({ rootDiskBytes }: LaunchRequest, image: ImageFacts) {
  const wantedGiB = Math.ceil(rootDiskBytes / GiB);
  return {
    DeviceName: image.rootDevice,
    Ebs: {
      VolumeSize: Math.max(wantedGiB, image.rootGiB, 1),
      VolumeType: "gp3" as const,
      Encrypted: true,
      DeleteOnTermination: true,
    },
  };
}

/** The original's rule: a value with a colon is an ARN. */
function profile({
  instanceProfile,
}: LaunchRequest): RunInstancesCommandInput["IamInstanceProfile"] {
  if (instanceProfile === undefined) return undefined;
  return instanceProfile.includes(":") ? { Arn: instanceProfile } : { Name: instanceProfile };
}

function market({ launchType, instanceType }: LaunchRequest, { hostId }: RunPlace) {
  // The catalogue's prices include the surcharge for core hours above the baseline. Without this option T2 would be slowed
  // down.
  const isBurstable = /^t(2|3|3a|4g)\./.test(instanceType);
  // EC2 refuses unlimited mode on dedicated hardware.
  const CpuCredits = launchType === "dedicated" ? "standard" : "unlimited";
  return {
    ...(isBurstable && { CreditSpecification: { CpuCredits } }),
    ...(launchType === "dedicated" && {
      Placement:
        hostId === undefined
          ? { Tenancy: "dedicated" as const }
          : { Tenancy: "host" as const, HostId: hostId },
    }),
    ...(launchType === "spot" && {
      InstanceMarketOptions: {
        MarketType: "spot" as const,
        SpotOptions: {
          SpotInstanceType: "one-time" as const,
          InstanceInterruptionBehavior: "terminate" as const,
        },
      },
    }),
  };
}

/**
 * Tags of everything that a launch creates. The time in the name makes each attempt different. So EC2 refuses a second attempt
 * with the same client token, instead of returning an instance that may have ended since.
 */
function tagSpecifications(
  request: LaunchRequest,
  { owner, hasIpv6 }: RunPlace,
  at: Date,
): TagSpecification[] {
  const { token, name: cell, tags, launchType } = request;
  const nametag = tags["kip-nametag"] ?? owner;
  const name = `Kip Node ${nametag} ${at.toISOString()}`.slice(0, 255);
  const list = toTags({ owner, token, cell, name, tags });
  const kinds = ["instance", "volume", "network-interface"] as const;
  const spot = launchType === "spot" ? (["spot-instances-request"] as const) : [];
  const { routes = [] } = request;
  const led = routes.length > 0 ? [{ Key: ownTags.routes, Value: routes.join(" ") }] : [];
  const expected = hasIpv6 ? [{ Key: ownTags.ipv6Count, Value: `${ipv6Addresses}` }] : [];
  return [...kinds, ...spot].map((kind) => ({
    ResourceType: kind,
    Tags: kind === "instance" ? [...list, ...led, ...expected] : list,
  }));
}
