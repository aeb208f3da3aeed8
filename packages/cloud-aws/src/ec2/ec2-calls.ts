import type * as sdk from "@aws-sdk/client-ec2";

/**
 * The EC2 actions that this driver uses, with their inputs and outputs. The driver calls no other action, so the account's
 * policy must allow exactly these. `policy/actions.ts` has an entry for each.
 */
export interface Ec2Calls {
  AllocateHosts: [sdk.AllocateHostsCommandInput, sdk.AllocateHostsCommandOutput];
  AttachVolume: [sdk.AttachVolumeCommandInput, sdk.AttachVolumeCommandOutput];
  AuthorizeSecurityGroupIngress: [
    sdk.AuthorizeSecurityGroupIngressCommandInput,
    sdk.AuthorizeSecurityGroupIngressCommandOutput,
  ];
  CreateRoute: [sdk.CreateRouteCommandInput, sdk.CreateRouteCommandOutput];
  CreateSecurityGroup: [sdk.CreateSecurityGroupCommandInput, sdk.CreateSecurityGroupCommandOutput];
  CreateTags: [sdk.CreateTagsCommandInput, sdk.CreateTagsCommandOutput];
  CreateVolume: [sdk.CreateVolumeCommandInput, sdk.CreateVolumeCommandOutput];
  DeleteRoute: [sdk.DeleteRouteCommandInput, sdk.DeleteRouteCommandOutput];
  DeleteSnapshot: [sdk.DeleteSnapshotCommandInput, sdk.DeleteSnapshotCommandOutput];
  DeleteTags: [sdk.DeleteTagsCommandInput, sdk.DeleteTagsCommandOutput];
  DeleteVolume: [sdk.DeleteVolumeCommandInput, sdk.DeleteVolumeCommandOutput];
  DescribeDhcpOptions: [sdk.DescribeDhcpOptionsCommandInput, sdk.DescribeDhcpOptionsCommandOutput];
  DescribeHosts: [sdk.DescribeHostsCommandInput, sdk.DescribeHostsCommandOutput];
  DescribeImages: [sdk.DescribeImagesCommandInput, sdk.DescribeImagesCommandOutput];
  DescribeInstances: [sdk.DescribeInstancesCommandInput, sdk.DescribeInstancesCommandOutput];
  DescribeInstanceTypes: [
    sdk.DescribeInstanceTypesCommandInput,
    sdk.DescribeInstanceTypesCommandOutput,
  ];
  DescribeRouteTables: [sdk.DescribeRouteTablesCommandInput, sdk.DescribeRouteTablesCommandOutput];
  DescribeSecurityGroups: [
    sdk.DescribeSecurityGroupsCommandInput,
    sdk.DescribeSecurityGroupsCommandOutput,
  ];
  DescribeSnapshots: [sdk.DescribeSnapshotsCommandInput, sdk.DescribeSnapshotsCommandOutput];
  DescribeSpotPriceHistory: [
    sdk.DescribeSpotPriceHistoryCommandInput,
    sdk.DescribeSpotPriceHistoryCommandOutput,
  ];
  DescribeSubnets: [sdk.DescribeSubnetsCommandInput, sdk.DescribeSubnetsCommandOutput];
  DescribeVolumes: [sdk.DescribeVolumesCommandInput, sdk.DescribeVolumesCommandOutput];
  DescribeVpcs: [sdk.DescribeVpcsCommandInput, sdk.DescribeVpcsCommandOutput];
  DetachVolume: [sdk.DetachVolumeCommandInput, sdk.DetachVolumeCommandOutput];
  GetConsoleOutput: [sdk.GetConsoleOutputCommandInput, sdk.GetConsoleOutputCommandOutput];
  ModifyInstanceAttribute: [
    sdk.ModifyInstanceAttributeCommandInput,
    sdk.ModifyInstanceAttributeCommandOutput,
  ];
  ModifyVolume: [sdk.ModifyVolumeCommandInput, sdk.ModifyVolumeCommandOutput];
  RegisterImage: [sdk.RegisterImageCommandInput, sdk.RegisterImageCommandOutput];
  ReleaseHosts: [sdk.ReleaseHostsCommandInput, sdk.ReleaseHostsCommandOutput];
  ReplaceRoute: [sdk.ReplaceRouteCommandInput, sdk.ReplaceRouteCommandOutput];
  RevokeSecurityGroupIngress: [
    sdk.RevokeSecurityGroupIngressCommandInput,
    sdk.RevokeSecurityGroupIngressCommandOutput,
  ];
  RunInstances: [sdk.RunInstancesCommandInput, sdk.RunInstancesCommandOutput];
  TerminateInstances: [sdk.TerminateInstancesCommandInput, sdk.TerminateInstancesCommandOutput];
}

/** Name of an action of EC2. */
export type Ec2Action = keyof Ec2Calls;

/** Whether an action changes something. */
export function isChange(action: Ec2Action): boolean {
  return !/^(Describe|Get)/.test(action);
}

/** Options of a call. */
export interface Ec2CallOptions {
  /** Purpose of the call: the rest of a sentence that begins with "Cannot". */
  readonly purpose: string;
  /** Describes what is short if the call fails with a shortage. */
  readonly place?: CallPlace | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Place and type of a launch, from which the scope of a shortage is made. */
export interface CallPlace {
  readonly instanceType: string;
  readonly zone: string;
  readonly launchType: string;
}

/** The part of the EC2 API that this driver uses. */
export interface Ec2 extends Disposable {
  /**
   * @throws {CloudError} of the closed set; its `cause` is the SDK's error. `CLOUD_UNAVAILABLE` if a change or its retry is not
   * sent because the term in which it began is over
   * @throws the signal's reason
   */
  call<A extends Ec2Action>(
    action: A,
    input: Ec2Calls[A][0],
    options: Ec2CallOptions,
  ): Promise<Ec2Calls[A][1]>;
}
