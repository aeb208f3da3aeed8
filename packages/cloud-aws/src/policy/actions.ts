import type { Ec2Action } from "../ec2/ec2-calls.ts";

/** What limits an action in the policy. */
export type ActionScope =
  /** Reads; EC2 knows no resources for them. */
  | "reads"
  /** Only resources that carry this installation's owner tag. */
  | "ours"
  /** Changes tags of such resources, but none that the driver knows them by. */
  | "tags"
  /** Makes something that carries the tag. */
  | "launch"
  /** Changes route tables, which carry no tag of this installation. */
  | "routes"
  /** Makes images of EC2 out of cell images: a person does, kip does not. */
  | "builds images"
  /** Which types can be on dedicated hosts; persons read prices of them, too. */
  | "reads types"
  /** Reads prices for a file: a person does, kip does not. */
  | "refreshes prices"
  | "makes volumes"
  /** Those of dedicated hosts, which few installations have. */
  | "makes hosts"
  | "releases hosts"
  | "makes groups";

/**
 * Each action of EC2 that the driver calls, and how narrow the policy can be. The type demands a row for each call of
 * `Ec2Calls`; a test compares what was called with the policy.
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
