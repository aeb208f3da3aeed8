import type { IpPermission, SecurityGroup } from "@aws-sdk/client-ec2";
import type { Logger } from "@kip/base";
import { parseCidr } from "@kip/network-view";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { ownTags } from "../tags.ts";

/** Options of {@link SecurityGroups}. */
export interface SecurityGroupsOptions {
  readonly ec2: Ec2;
  readonly owner: string;
  readonly vpcId: string;
  /** Sources besides the VPC's own ranges. */
  readonly extraCIDRs: readonly string[];
  /** IDs of further groups of cells. */
  readonly extraGroups: readonly string[];
  /** Current ranges of the VPC. */
  readonly vpcCidrs: () => Promise<readonly string[]>;
  readonly logger: Logger;
}

/**
 * The security groups of cells: our own, which admits all traffic from the VPC and the extra ranges, and those from the
 * configuration. Our group is created when the first cell needs it, and each start of kip corrects it.
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
      this.#own = undefined; // the next launch asks again
      throw error;
    });
    return [await this.#own, ...this.#options.extraGroups];
  }

  /** Makes the next launch look for our group, and create it if it is gone. */
  forget(): void {
    this.#own = undefined;
  }

  async #prepare(): Promise<string> {
    const sources = new Set(
      [...(await this.#options.vpcCidrs()), ...this.#options.extraCIDRs].map(canonical),
    );
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
    const pages = await allPages(
      ec2,
      "DescribeSecurityGroups",
      {
        Filters: [
          { Name: "group-name", Values: [groupName(owner)] },
          { Name: "vpc-id", Values: [vpcId] },
        ],
        MaxResults: 1000,
      },
      { purpose: "find the cells' security group" },
    );
    return pages.flatMap(({ SecurityGroups: groups = [] }) => groups)[0];
  }

  async #correctRules(group: SecurityGroup, sources: ReadonlySet<string>): Promise<void> {
    const { GroupId = "", IpPermissions = [] } = group;
    const present = IpPermissions.filter(isAllTraffic).flatMap(rangesOf);
    const known = new Set(present.map(canonical));
    const missing = [...sources].filter((cidr) => !known.has(cidr));
    const extra = present.filter((cidr) => !sources.has(canonical(cidr)));
    const leaving = [
      ...extra.map(allTraffic),
      ...IpPermissions.flatMap((each) => (isAllTraffic(each) ? withoutRanges(each) : [each])),
    ];
    const admit = async () =>
      await this.#change("AuthorizeSecurityGroupIngress", GroupId, missing.map(allTraffic));
    const shutOut = async () => await this.#change("RevokeSecurityGroupIngress", GroupId, leaving);
    try {
      await admit(); // first, because a new range may replace one that is revoked
    } catch (error) {
      const isFull = awsCodeOf(error) === "RulesPerSecurityGroupLimitExceeded";
      if (!isFull || leaving.length === 0) throw error;
      await shutOut();
      await admit();
      return;
    }
    await shutOut();
  }

  /**
   * Changes all rules in one call. If another process has already made the same change to one of them, EC2 refuses the whole
   * call. Then each rule is changed in its own call.
   */
  async #change(
    action: keyof typeof changes,
    GroupId: string,
    rules: readonly IpPermission[],
  ): Promise<void> {
    if (rules.length === 0) return;
    const { purpose, doneCode } = changes[action];
    try {
      await this.#options.ec2.call(action, { GroupId, IpPermissions: [...rules] }, { purpose });
    } catch (error) {
      if (awsCodeOf(error) !== doneCode) throw error;
      if (rules.length === 1) return;
      for (const rule of rules) await this.#change(action, GroupId, [rule]);
    }
  }
}

/** The changes of rules, and EC2's code if a change was already made. */
const changes = {
  AuthorizeSecurityGroupIngress: {
    purpose: "let the VPC reach cells",
    doneCode: "InvalidPermission.Duplicate",
  },
  RevokeSecurityGroupIngress: {
    purpose: "shut out what may no longer reach cells",
    doneCode: "InvalidPermission.NotFound",
  },
} as const;

/** The original's name. */
function groupName(owner: string): string {
  return `kip-${owner}-cellsecuritygroup`;
}

/** Pods listen on any port of any protocol, like in any pod network. Their own policies are NetworkPolicies. */
function allTraffic(cidr: string): IpPermission {
  return {
    IpProtocol: "-1",
    ...(cidr.includes(":")
      ? { Ipv6Ranges: [{ CidrIpv6: cidr }] }
      : { IpRanges: [{ CidrIp: cidr }] }),
  };
}

/** A range in EC2's notation. EC2 accepts others, too. */
function canonical(cidr: string): string {
  return parseCidr(cidr)?.text ?? cidr;
}

function isAllTraffic({ IpProtocol }: IpPermission): boolean {
  return IpProtocol === "-1";
}

/** The sources that it admits besides ranges, if any. */
function withoutRanges({ UserIdGroupPairs = [], PrefixListIds = [] }: IpPermission) {
  return [
    ...UserIdGroupPairs.map((each) => ({ IpProtocol: "-1", UserIdGroupPairs: [each] })),
    ...PrefixListIds.map((each) => ({ IpProtocol: "-1", PrefixListIds: [each] })),
  ];
}

function rangesOf({ IpRanges = [], Ipv6Ranges = [] }: IpPermission): readonly string[] {
  return [
    ...IpRanges.flatMap(({ CidrIp }) => CidrIp ?? []),
    ...Ipv6Ranges.flatMap(({ CidrIpv6 }) => CidrIpv6 ?? []),
  ];
}
