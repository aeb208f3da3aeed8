import type { Ec2Action } from "../ec2/ec2-calls.ts";

/** How the policy limits an action. */
export type ActionScope =
  /** Read-only actions, which EC2 cannot limit to resources. */
  | "reads"
  /** Only resources that carry this installation's owner tag. */
  | "ours"
  /** Changes tags of such resources, except those by which the driver identifies them. */
  | "tags"
  /** Creates something with the owner tag. */
  | "launch"
  /** Changes route tables, which do not have this installation's tag. */
  | "routes"
  /** Builds EC2 images from cell images. A person does this, not kip. */
  | "builds images"
  /** Reads which types can be on dedicated hosts. People also use it to read prices. */
  | "reads types"
  /** Reads prices for a price file. A person does this, not kip. */
  | "refreshes prices"
  | "makes volumes"
  /** Those of dedicated hosts, which few installations have. */
  | "makes hosts"
  | "releases hosts"
  | "makes groups";

/**
 * Each EC2 action that the driver calls, and how narrow the policy can be. The type requires an entry for each call of
 * `Ec2Calls`, and a test compares the actual calls with the policy.
 */
export const actions: Readonly<Record<Ec2Action, ActionScope>> = {
  AllocateHosts: "makes hosts",
  AttachVolume: "ours",
  AuthorizeSecurityGroupIngress: "ours",
  CreateRoute: "routes",
  CreateSecurityGroup: "makes groups",
  CreateTags: "tags",
  CreateVolume: "makes volumes",
  DeleteRoute: "routes",
  DeleteSnapshot: "builds images",
  DeleteTags: "tags",
  DeleteVolume: "ours",
  DescribeDhcpOptions: "reads",
  DescribeHosts: "reads",
  DescribeImages: "reads",
  DescribeInstances: "reads",
  DescribeInstanceTypes: "reads types",
  DescribeRouteTables: "reads",
  DescribeSecurityGroups: "reads",
  DescribeSnapshots: "builds images",
  DescribeSpotPriceHistory: "refreshes prices",
  DescribeSubnets: "reads",
  DescribeVolumes: "reads",
  DescribeVpcs: "reads",
  DetachVolume: "ours",
  GetConsoleOutput: "ours",
  ModifyInstanceAttribute: "ours",
  ModifyVolume: "ours",
  RegisterImage: "builds images",
  ReleaseHosts: "releases hosts",
  ReplaceRoute: "routes",
  RevokeSecurityGroupIngress: "ours",
  RunInstances: "launch",
  TerminateInstances: "ours",
};
