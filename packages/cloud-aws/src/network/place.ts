import type { Route, RouteTable, Subnet } from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { InstanceMetadata } from "./metadata.ts";

/** A subnet for cells. */
export interface CellSubnet {
  readonly subnetId: string;
  readonly zone: string;
  /** Whether the subnet's IPv4 default route leads to an internet gateway, so that cells may get public addresses. */
  readonly isPublic: boolean;
  /** Whether it has an IPv6 range. */
  readonly hasIpv6: boolean;
  /** Number of free addresses at the last check. A cell takes two. */
  readonly freeAddresses: number;
}

/** Where cells run. */
export interface Place {
  readonly vpcId: string;
  /** At least one; the preferred zone first. */
  readonly subnets: readonly CellSubnet[];
}

/** The configuration of the place. */
export interface PlaceOptions {
  /** `default`: the account's default VPC. @default the VPC of this machine */
  readonly vpcID?: string | undefined;
  /**
   * @default the subnet of this machine; in a VPC set with `vpcID`, those with the tag {@link subnetTag}, or its only subnet
   */
  readonly subnetID?: string | undefined;
  /** Several subnets of one VPC, the preferred zone first, in place of `subnetID`. */
  readonly subnetIDs?: readonly string[] | undefined;
}

/** Marks the subnets of a VPC for cells, with any value. */
export const subnetTag = "kip.elotl.co/cells";

/**
 * Finds the subnets of the cells: the configured ones, or this machine's own, or the marked ones of the VPC, or its only one.
 *
 * @throws {CloudError} `CLOUD_NOT_FOUND` if there is none, `CLOUD_INVALID_REQUEST` if the choice is ambiguous
 */
export async function findPlace(
  ec2: Ec2,
  { vpcID, subnetID, subnetIDs }: PlaceOptions,
  metadata: InstanceMetadata,
): Promise<Place> {
  const named = namedIDs(subnetID, subnetIDs);
  const found =
    named.length === 0
      ? await subnetsOfVpc(ec2, vpcID, metadata)
      : await namedSubnets(ec2, named, vpcID);
  const vpcId = found[0]?.VpcId ?? "";
  const tables = await routeTables(ec2, vpcId);
  return { vpcId, subnets: found.map((each) => toCellSubnet(each, tables)) };
}

/** The same subnets with their current numbers of free addresses. */
export async function lookAtSubnets(
  ec2: Ec2,
  subnets: readonly CellSubnet[],
): Promise<readonly CellSubnet[]> {
  const ids = subnets.map(({ subnetId }) => subnetId);
  const found = await describeSubnets(ec2, { SubnetIds: ids });
  const free = new Map(found.map((each) => [each.SubnetId, each.AvailableIpAddressCount]));
  return subnets.map((each) => ({
    ...each,
    freeAddresses: free.get(each.subnetId) ?? each.freeAddresses,
  }));
}

function namedIDs(one: string | undefined, several: readonly string[] = []): readonly string[] {
  if (one === undefined) return [...new Set(several)];
  if (several.length === 0) return [one];
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    "Cannot choose subnets: cloud.aws has both subnetID and subnetIDs",
    { remedy: "Write all subnets in subnetIDs, and leave out subnetID" },
  );
}

async function describeSubnets(
  ec2: Ec2,
  input:
    | { readonly SubnetIds: string[] }
    | { readonly Filters: { Name: string; Values: string[] }[]; readonly MaxResults: number },
): Promise<readonly Subnet[]> {
  const purpose = "find the subnet of the cells";
  const pages = await allPages(ec2, "DescribeSubnets", input, { purpose });
  return pages.flatMap(({ Subnets = [] }) => Subnets);
}

/** In the order of the configuration. */
async function namedSubnets(
  ec2: Ec2,
  ids: readonly string[],
  vpcID: string | undefined,
): Promise<readonly Subnet[]> {
  const found = await describeSubnets(ec2, { SubnetIds: [...ids] });
  const subnets = ids.map((id) => {
    const subnet = found.find(({ SubnetId }) => SubnetId === id);
    if (!subnet) throw missing(`there is no subnet ${id}`);
    return subnet;
  });
  const wanted = vpcID === undefined || vpcID === "default" ? subnets[0]?.VpcId : vpcID;
  const other = subnets.find(({ VpcId }) => VpcId !== wanted);
  if (other)
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot use subnet ${other.SubnetId}: it is in VPC ${other.VpcId}, not in ${wanted}`,
      {
        remedy:
          vpcID === undefined
            ? "Name subnets of one VPC in cloud.aws.subnetIDs"
            : "Leave out cloud.aws.vpcID, which the subnet implies",
      },
    );
  return subnets;
}

async function subnetsOfVpc(
  ec2: Ec2,
  vpcID: string | undefined,
  metadata: InstanceMetadata,
): Promise<readonly Subnet[]> {
  if (vpcID === undefined) {
    const own = await ownSubnet(metadata);
    if (own !== undefined) return await namedSubnets(ec2, [own], undefined);
    throw missing("this machine has no metadata service of EC2 that names its subnet");
  }
  const vpc = vpcID === "default" ? await defaultVpc(ec2) : vpcID;
  const Filters = [{ Name: "vpc-id", Values: [vpc] }];
  const all = await describeSubnets(ec2, { Filters, MaxResults: 1000 });
  if (all.length === 0) throw missing(`VPC ${vpc} has no subnet`);
  const marked = all.filter(({ Tags = [] }) => Tags.some(({ Key }) => Key === subnetTag));
  if (marked.length > 0) return byFreeAddresses(marked);
  if (all.length === 1) return all;
  const ids = all.map(({ SubnetId }) => SubnetId).join(", ");
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot choose a subnet: VPC ${vpc} has ${all.length}, none of them with the tag ${subnetTag}`,
    { remedy: `Set cloud.aws.subnetIDs to some of ${ids}, or tag them` },
  );
}

function byFreeAddresses(subnets: readonly Subnet[]): readonly Subnet[] {
  const key = ({ AvailableIpAddressCount: free = 0 }: Subnet) => free;
  return subnets.toSorted(
    (a, b) => key(b) - key(a) || (a.SubnetId ?? "").localeCompare(b.SubnetId ?? ""),
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
  const pages = await allPages(
    ec2,
    "DescribeVpcs",
    { Filters: [{ Name: "is-default", Values: ["true"] }], MaxResults: 1000 },
    { purpose: "find the default VPC" },
  );
  const id = pages.flatMap(({ Vpcs = [] }) => Vpcs)[0]?.VpcId;
  if (id === undefined) throw missing("the account has no default VPC in this region");
  return id;
}

/** The route tables of a VPC. */
export async function routeTables(ec2: Ec2, vpcId: string): Promise<readonly RouteTable[]> {
  const pages = await allPages(
    ec2,
    "DescribeRouteTables",
    { Filters: [{ Name: "vpc-id", Values: [vpcId] }], MaxResults: 100 },
    { purpose: "read the routes of the cells' subnets" },
  );
  return pages.flatMap(({ RouteTables = [] }) => RouteTables);
}

function toCellSubnet(subnet: Subnet, tables: readonly RouteTable[]): CellSubnet {
  const { SubnetId: subnetId = "", AvailabilityZone: zone = "" } = subnet;
  const isPublic = (tableOf(subnetId, tables)?.Routes ?? []).some(isToInternet);
  const { AvailableIpAddressCount: freeAddresses = 0, Ipv6CidrBlockAssociationSet: ranges = [] } =
    subnet;
  const hasIpv6 = ranges.some(
    ({ Ipv6CidrBlockState }) => Ipv6CidrBlockState?.State === "associated",
  );
  return { subnetId, zone, isPublic, hasIpv6, freeAddresses };
}

/** IPv4 only. A public address would be useless, and cost money, behind a NAT gateway. */
function isToInternet({ DestinationCidrBlock, GatewayId = "", State }: Route): boolean {
  return (
    DestinationCidrBlock === "0.0.0.0/0" && GatewayId.startsWith("igw-") && State !== "blackhole"
  );
}

/** The subnet's own route table, or the VPC's main one, which the original ignored. */
export function tableOf(subnetId: string, tables: readonly RouteTable[]): RouteTable | undefined {
  return (
    tables.find(({ Associations = [] }) =>
      Associations.some((each) => each.SubnetId === subnetId),
    ) ?? tables.find(({ Associations = [] }) => Associations.some((each) => each.Main === true))
  );
}

function missing(reason: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot find the subnet of the cells: ${reason}`, {
    remedy: "Set cloud.aws.subnetID",
  });
}
