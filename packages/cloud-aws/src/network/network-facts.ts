import type { NetworkFacts } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";

/**
 * Ranges that no packet reaches over the internet: those of private networks (RFC 1918), of the address space that networks share
 * (RFC 6598), and of the link, where the metadata service and the VPC's name server answer. All of IPv6: its addresses are public
 * as they are. These are the defaults of ip-masq-agent, and the space of RFC 6598, which VPCs may use, too.
 */
const neverMasqueraded: readonly string[] = [
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "169.254.0.0/16",
  "::/0",
];

interface VpcFacts {
  readonly cidrs: readonly string[];
  readonly primaryCidr: string;
  readonly dhcpOptionsId: string | undefined;
}

/** All IPv4 and IPv6 ranges of the VPC that are in use; the original saw only the first one. */
export async function vpcCidrs(ec2: Ec2, vpcId: string): Promise<readonly string[]> {
  return (await vpcFacts(ec2, vpcId)).cidrs;
}

/**
 * Ranges of the VPC, and its name servers and search domains by its DHCP options.
 *
 * @param extraCIDRs ranges besides that pods reach by their own addresses, such as those of peered networks
 */
export async function networkFacts(
  ec2: Ec2,
  vpcId: string,
  extraCIDRs: readonly string[] = [],
): Promise<NetworkFacts> {
  const { cidrs, primaryCidr, dhcpOptionsId } = await vpcFacts(ec2, vpcId);
  const options = await dhcpOptions(ec2, dhcpOptionsId);
  const servers = options.get("domain-name-servers") ?? ["AmazonProvidedDNS"];
  return {
    nameservers: servers.flatMap((server) =>
      server === "AmazonProvidedDNS" ? providedDns(primaryCidr) : [server],
    ),
    searchDomains: options.get("domain-name")?.flatMap((text) => text.split(/\s+/)) ?? [],
    cidrs,
    directRanges: [...new Set([...neverMasqueraded, ...cidrs, ...extraCIDRs])],
  };
}

async function vpcFacts(ec2: Ec2, vpcId: string): Promise<VpcFacts> {
  const { Vpcs = [] } = await ec2.call(
    "DescribeVpcs",
    { VpcIds: [vpcId] },
    { purpose: "read the ranges of the VPC" },
  );
  const [vpc] = Vpcs;
  const primaryCidr = vpc?.CidrBlock ?? "";
  const isUsed = (state: string | undefined): boolean => (state ?? "associated") === "associated";
  const v4 = (vpc?.CidrBlockAssociationSet ?? [])
    .filter((each) => isUsed(each.CidrBlockState?.State))
    .flatMap(({ CidrBlock }) => CidrBlock ?? []);
  const v6 = (vpc?.Ipv6CidrBlockAssociationSet ?? [])
    .filter((each) => isUsed(each.Ipv6CidrBlockState?.State))
    .flatMap(({ Ipv6CidrBlock }) => Ipv6CidrBlock ?? []);
  const cidrs = [...new Set([primaryCidr, ...v4, ...v6])].filter((cidr) => cidr !== "");
  return { cidrs, primaryCidr, dhcpOptionsId: vpc?.DhcpOptionsId };
}

async function dhcpOptions(
  ec2: Ec2,
  id: string | undefined,
): Promise<ReadonlyMap<string, readonly string[]>> {
  // A VPC without options of its own has the ID "default" in place of one.
  if (id === undefined || !id.startsWith("dopt-")) return new Map();
  const { DhcpOptions = [] } = await ec2.call(
    "DescribeDhcpOptions",
    { DhcpOptionsIds: [id] },
    { purpose: "read the DHCP options of the VPC" },
  );
  const entries = DhcpOptions[0]?.DhcpConfigurations ?? [];
  return new Map(
    entries.map(({ Key = "", Values = [] }) => [Key, Values.flatMap(({ Value }) => Value ?? [])]),
  );
}

/** Amazon's resolver: the third address of the VPC's first range. */
function providedDns(cidr: string): readonly string[] {
  const numbers = cidr.split("/")[0]?.split(".").map(Number) ?? [];
  const [a = 0, b = 0, c = 0, d = 0] = numbers;
  return numbers.length === 4 ? [[a, b, c, d + 2].join(".")] : ["169.254.169.253"];
}
