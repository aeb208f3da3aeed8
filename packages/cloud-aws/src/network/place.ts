import type { Subnet } from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { InstanceMetadata } from "./metadata.ts";

/** Where cells are. */
export interface Place {
  readonly vpcId: string;
  readonly subnetId: string;
  readonly zone: string;
  /** The subnet has a route to an internet gateway, so cells may get public addresses. */
  readonly isPublic: boolean;
}

/** What a configuration says of the place. */
export interface PlaceOptions {
  /** `default`: the account's default VPC. @default the VPC of this machine */
  readonly vpcID?: string | undefined;
  /** @default the subnet of this machine; of a VPC that is named, its only subnet */
  readonly subnetID?: string | undefined;
}

/**
 * The subnet of the cells: the one that is named, else this machine's own, else the only one of the VPC.
 *
 * @throws {CloudError} `CLOUD_NOT_FOUND` if there is none, `CLOUD_INVALID_REQUEST` if there are several
 */
export async function findPlace(
  ec2: Ec2,
  { vpcID, subnetID }: PlaceOptions,
  metadata: InstanceMetadata,
): Promise<Place> {
  const subnet =
    subnetID === undefined
      ? await subnetOfVpc(ec2, vpcID, metadata)
      : await namedSubnet(ec2, subnetID, vpcID);
  const { VpcId: vpcId = "", SubnetId: subnetId = "", AvailabilityZone: zone = "" } = subnet;
  return { vpcId, subnetId, zone, isPublic: await hasInternetGateway(ec2, vpcId, subnetId) };
}

async function namedSubnet(ec2: Ec2, id: string, vpcID: string | undefined): Promise<Subnet> {
  const { Subnets = [] } = await ec2.call(
    "DescribeSubnets",
    { SubnetIds: [id] },
    { purpose: "find the subnet of the cells" },
  );
  const [subnet] = Subnets;
  if (!subnet) throw missing(`there is no subnet ${id}`);
  if (vpcID !== undefined && vpcID !== "default" && subnet.VpcId !== vpcID)
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot use subnet ${id}: it is in VPC ${subnet.VpcId}, not in ${vpcID}`,
      { remedy: "Leave out cloud.aws.vpcID, which the subnet implies" },
    );
  return subnet;
}

async function subnetOfVpc(
  ec2: Ec2,
  vpcID: string | undefined,
  metadata: InstanceMetadata,
): Promise<Subnet> {
  if (vpcID === undefined) {
    const own = await ownSubnet(metadata);
    if (own !== undefined) return await namedSubnet(ec2, own, undefined);
    throw missing("this machine has no metadata service of EC2 that names its subnet");
  }
  const vpc = vpcID === "default" ? await defaultVpc(ec2) : vpcID;
  const { Subnets = [] } = await ec2.call(
    "DescribeSubnets",
    { Filters: [{ Name: "vpc-id", Values: [vpc] }] },
    { purpose: "find the subnet of the cells" },
  );
  const [only, ...more] = Subnets;
  if (!only) throw missing(`VPC ${vpc} has no subnet`);
  if (more.length === 0) return only;
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot choose a subnet: VPC ${vpc} has ${Subnets.length}`,
    {
      remedy: `Set cloud.aws.subnetID to one of ${Subnets.map((each) => each.SubnetId).join(", ")}`,
    },
  );
}

/** Subnet of this machine's first interface. */
async function ownSubnet(metadata: InstanceMetadata): Promise<string | undefined> {
  const mac = await metadata.get("mac");
  return mac === undefined
    ? undefined
    : await metadata.get(`network/interfaces/macs/${mac}/subnet-id`);
}

async function defaultVpc(ec2: Ec2): Promise<string> {
  const { Vpcs = [] } = await ec2.call(
    "DescribeVpcs",
    { Filters: [{ Name: "is-default", Values: ["true"] }] },
    { purpose: "find the default VPC" },
  );
  const id = Vpcs[0]?.VpcId;
  if (id === undefined) throw missing("the account has no default VPC in this region");
  return id;
}

/** By the subnet's own route table, or the VPC's main one, which the original overlooked. */
async function hasInternetGateway(ec2: Ec2, vpcId: string, subnetId: string): Promise<boolean> {
  const { RouteTables = [] } = await ec2.call(
    "DescribeRouteTables",
    { Filters: [{ Name: "vpc-id", Values: [vpcId] }] },
    { purpose: "read the routes of the cells' subnet" },
  );
  const table =
    RouteTables.find(({ Associations = [] }) =>
      Associations.some((each) => each.SubnetId === subnetId),
    ) ??
    RouteTables.find(({ Associations = [] }) => Associations.some((each) => each.Main === true));
  return (table?.Routes ?? []).some(({ GatewayId = "" }) => GatewayId.startsWith("igw-"));
}

function missing(reason: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot find the subnet of the cells: ${reason}`, {
    remedy: "Set cloud.aws.subnetID",
  });
}
