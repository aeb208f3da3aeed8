import type { NetworkFacts } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";

/**
 * Ranges to which packets of pods are not masqueraded: private networks (RFC 1918), the shared address space (RFC 6598), and
 * link-local addresses, which the metadata service and the VPC's name server use. Also all of IPv6, whose addresses are public.
 * These are the defaults of ip-masq-agent plus RFC 6598, which VPCs may use, too.
 */
const neverMasqueraded: readonly string[] = [
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "169.254.0.0/16",
  "::/0",
];

type OptionValues = ReadonlyMap<string, readonly string[]>;

interface VpcFacts {
  readonly cidrs: readonly string[];
  readonly primaryCidr: string;
  readonly dhcpOptionsId: string | undefined;
}

/** All IPv4 and IPv6 ranges of the VPC that are in use. The original only used the first. */
export async function vpcCidrs(ec2: Ec2, vpcId: string): Promise<readonly string[]> {
  return (await vpcFacts(ec2, vpcId)).cidrs;
}

/**
 * Ranges of the VPC, and its name servers and search domains from its DHCP options.
 *
 * @param extraCIDRs further ranges that pods reach with their own addresses, such as those of peered networks
 */
export async function networkFacts(
  ec2: Ec2,
  vpcId: string,
  { extraCIDRs, dhcp }: { readonly extraCIDRs: readonly string[]; readonly dhcp: DhcpOptions },
): Promise<NetworkFacts> {
  const { cidrs, primaryCidr, dhcpOptionsId } = await vpcFacts(ec2, vpcId);
  const options = await dhcp.of(dhcpOptionsId);
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

/** Sets of DHCP options. A set cannot be changed (a VPC gets another set instead), so the latest one is cached. */
export class DhcpOptions {
  readonly #ec2: Ec2;
  #latest: { readonly id: string; readonly values: OptionValues } | undefined;

  constructor(ec2: Ec2) {
    this.#ec2 = ec2;
  }

  /** @param id "default" for a VPC without its own options */
  async of(id: string | undefined): Promise<OptionValues> {
    if (id === undefined || !id.startsWith("dopt-")) return new Map();
    if (this.#latest?.id === id) return this.#latest.values;
    const { DhcpOptions: sets = [] } = await this.#ec2.call(
      "DescribeDhcpOptions",
      { DhcpOptionsIds: [id] },
      { purpose: "read the DHCP options of the VPC" },
    );
    const entries = sets[0]?.DhcpConfigurations ?? [];
    const values = new Map(
      entries.map(({ Key = "", Values = [] }) => [Key, Values.flatMap(({ Value }) => Value ?? [])]),
    );
    if (sets.length > 0) this.#latest = { id, values };
    return values;
  }
}

/** Amazon's resolver: the third address of the VPC's first range. */
function providedDns(cidr: string): readonly string[] {
  const numbers = cidr.split("/")[0]?.split(".").map(Number) ?? [];
  const [a = 0, b = 0, c = 0, d = 0] = numbers;
  return numbers.length === 4 ? [[a, b, c, d + 2].join(".")] : ["169.254.169.253"];
}
