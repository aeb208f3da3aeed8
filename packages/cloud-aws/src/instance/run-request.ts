import { createHash } from "node:crypto";
import type { RunInstancesCommandInput, TagSpecification } from "@aws-sdk/client-ec2";
import { defined } from "@kip/base";
import type { LaunchRequest } from "@kip/cloud";
import type { ImageFacts } from "../image/images.ts";
import { ownTags, toTags } from "../tags.ts";

const GiB = 2 ** 30;
/** One for the machine, one for its pod. */
export const ipv6Addresses = 2;
/** Of the types before C3, R3 and I2, none can have an address of IPv6. */
const withoutIpv6 = /^(c1|m[123]|t1)\./;

/** Where an instance goes. */
export interface RunPlace {
  readonly owner: string;
  readonly subnetId: string;
  readonly securityGroups: readonly string[];
  /** The subnet has a route to the internet by public addresses. */
  readonly isPublic: boolean;
  /** Whether the interface gets addresses of IPv6, besides, if its type can have them. @default false */
  readonly hasIpv6?: boolean | undefined;
  /** A dedicated host. @default dedicated instances have dedicated tenancy */
  readonly hostId?: string | undefined;
}

/** What RunInstances is asked for. */
export function runRequest(
  request: LaunchRequest,
  place: RunPlace,
  { image, clientToken, at }: { image: ImageFacts; clientToken: string; at: Date },
): RunInstancesCommandInput {
  const { subnetId, securityGroups, isPublic } = place;
  const hasIpv6 = place.hasIpv6 === true && !withoutIpv6.test(request.instanceType);
  return defined({
    ImageId: request.image,
    // The catalogue's names, of which the SDK's list is a part.
    InstanceType: request.instanceType as RunInstancesCommandInput["InstanceType"],
    MinCount: 1,
    MaxCount: 1,
    ClientToken: clientToken,
    UserData: Buffer.from(request.userData).toString("base64"),
    // A pod's machine that powers itself off must not stay and cost its disk.
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
    // One hop: the pod, behind the machine's own network namespace, cannot ask for anything. A profile is there for the pod.
    MetadataOptions: {
      HttpEndpoint: "enabled" as const,
      // Nothing asks there; it is one way less to the credentials of a profile.
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
 * Client token of EC2, at most 64 characters: the Cell's UID, a mark of the owner, and how many instances of this token have ended
 * before, because EC2 keeps a token with the instance that it started, also when that has ended.
 */
export function clientTokenOf(owner: string, token: string, generation: number): string {
  const head = token.length <= 40 ? token : hash(token, 40);
  return `${head}-${hash(owner, 12)}-${generation}`;
}

/** The generation that {@link clientTokenOf} was called with. */
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

/** The original's rule: what has a colon is an ARN. */
function profile({
  instanceProfile,
}: LaunchRequest): RunInstancesCommandInput["IamInstanceProfile"] {
  if (instanceProfile === undefined) return undefined;
  return instanceProfile.includes(":") ? { Arn: instanceProfile } : { Name: instanceProfile };
}

function market({ launchType, instanceType }: LaunchRequest, { hostId }: RunPlace) {
  // The catalogue counts on a price for each hour of a core above the baseline; T2 alone would be slowed down instead.
  const isBurstable = /^t(2|3|3a|4g)\./.test(instanceType);
  // EC2 refuses unlimited mode on hardware of one's own.
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
 * Tags of all that a launch makes. The time in the name makes each attempt differ from the others, so EC2 refuses a second
 * attempt with the same client token instead of answering it with what may have ended since.
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
