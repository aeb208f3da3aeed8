import type { IpPermission, SecurityGroup } from "@aws-sdk/client-ec2";
import type { Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { ownTags } from "../tags.ts";

/** What {@link SecurityGroups} works with. */
export interface SecurityGroupsOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly vpcId: string;
  /** Sources besides the VPC's own ranges. */
  readonly extraCIDRs: readonly string[];
  /** IDs of groups that cells have besides ours. */
  readonly extraGroups: readonly string[];
  /** Ranges of the VPC now. */
  readonly vpcCidrs: () => Promise<readonly string[]>;
  readonly logger: Logger;
}

/**
 * The security groups of cells: one of ours, which lets in all of the VPC and of the extra ranges, and those that the
 * configuration adds. Ours is made when the first cell needs it and put right by each start of kip.
 */
export class SecurityGroups {
  readonly #options: SecurityGroupsOptions;
  #own: Promise<string> | undefined;

  constructor(options: SecurityGroupsOptions) {
    this.#options = options;
  }

  /** IDs for a launch. */
  async get(): Promise<readonly string[]> {
    this.#own ??= this.#prepare().catch((error: unknown) => {
      this.#own = undefined; // asked again by the next launch
      throw error;
    });
    return [await this.#own, ...this.#options.extraGroups];
  }

  async #prepare(): Promise<string> {
    const sources = [
      ...new Set([...(await this.#options.vpcCidrs()), ...this.#options.extraCIDRs]),
    ];
    const group = await this.#findOrCreate();
    await this.#correctRules(group, sources);
    return group.GroupId ?? "";
  }

  async #findOrCreate(): Promise<SecurityGroup> {
    const found = await this.#find();
    if (found) return found;
    const { ec2, owner, vpcId, logger } = this.#options;
    const name = groupName(owner);
    try {
      const { GroupId } = await ec2.call(
        "CreateSecurityGroup",
        {
          GroupName: name,
          Description: "Cells of Kip",
          VpcId: vpcId,
          TagSpecifications: [
            {
              ResourceType: "security-group",
              Tags: [
                { Key: ownTags.name, Value: name },
                { Key: ownTags.owner, Value: owner },
              ],
            },
          ],
        },
        { purpose: "create the cells' security group" },
      );
      logger.info("Created the security group of cells", { group: GroupId });
      return { ...(GroupId !== undefined && { GroupId }), IpPermissions: [] };
    } catch (error) {
      if (awsCodeOf(error) !== "InvalidGroup.Duplicate") throw error;
      const other = await this.#find(); // another process was faster
      if (other) return other;
      throw error;
    }
  }

  async #find(): Promise<SecurityGroup | undefined> {
    const { ec2, owner, vpcId } = this.#options;
    const { SecurityGroups: groups = [] } = await ec2.call(
      "DescribeSecurityGroups",
      {
        Filters: [
          { Name: "group-name", Values: [groupName(owner)] },
          { Name: "vpc-id", Values: [vpcId] },
        ],
      },
      { purpose: "find the cells' security group" },
    );
    return groups[0];
  }

  async #correctRules(group: SecurityGroup, sources: readonly string[]): Promise<void> {
    const { ec2 } = this.#options;
    const { GroupId = "", IpPermissions = [] } = group;
    const present = new Set(IpPermissions.filter(isAllTraffic).flatMap(rangesOf));
    const missing = sources.filter((cidr) => !present.has(cidr));
    const extra = [...present].filter((cidr) => !sources.includes(cidr));
    const others = IpPermissions.filter((each) => !isAllTraffic(each));
    if (missing.length > 0)
      await ec2
        .call(
          "AuthorizeSecurityGroupIngress",
          { GroupId, IpPermissions: [allTraffic(missing)] },
          { purpose: "let the VPC reach cells" },
        )
        .catch(unlessCode("InvalidPermission.Duplicate"));
    if (extra.length > 0 || others.length > 0)
      await ec2
        .call(
          "RevokeSecurityGroupIngress",
          {
            GroupId,
            IpPermissions: [...(extra.length > 0 ? [allTraffic(extra)] : []), ...others],
          },
          { purpose: "shut out what may no longer reach cells" },
        )
        .catch(unlessCode("InvalidPermission.NotFound"));
  }
}

/** The original's name. */
function groupName(owner: string): string {
  return `kip-${owner}-cellsecuritygroup`;
}

/** Pods listen on any port of any protocol, as behind any pod network; their own policies are NetworkPolicies. */
function allTraffic(cidrs: readonly string[]): IpPermission {
  const v4 = cidrs.filter((cidr) => !cidr.includes(":"));
  const v6 = cidrs.filter((cidr) => cidr.includes(":"));
  return {
    IpProtocol: "-1",
    ...(v4.length > 0 && { IpRanges: v4.map((CidrIp) => ({ CidrIp })) }),
    ...(v6.length > 0 && { Ipv6Ranges: v6.map((CidrIpv6) => ({ CidrIpv6 })) }),
  };
}

function isAllTraffic({ IpProtocol }: IpPermission): boolean {
  return IpProtocol === "-1";
}

function rangesOf({ IpRanges = [], Ipv6Ranges = [] }: IpPermission): readonly string[] {
  return [
    ...IpRanges.flatMap(({ CidrIp }) => CidrIp ?? []),
    ...Ipv6Ranges.flatMap(({ CidrIpv6 }) => CidrIpv6 ?? []),
  ];
}

/** Another process has done the same. */
function unlessCode(code: string): (error: unknown) => void {
  return (error) => {
    if (!CloudError.is(error) || awsCodeOf(error) !== code) throw error;
  };
}
