import type * as sdk from "@aws-sdk/client-ec2";
import type { DedicatedHost } from "@kip/cloud";
import { ownTags } from "../tags.ts";

/** A dedicated host of EC2, with facts that the port's `DedicatedHost` does not have. */
export interface SeenHost {
  readonly host: DedicatedHost;
  /** `available`, `pending`, `under-assessment`, `permanent-failure`, `released` or `released-permanent-failure`. */
  readonly state: string;
  /** How many more instances of its type fit. */
  readonly room: number;
}

/**
 * Reads a host from a response. Undefined for a host without an owner tag. Somebody may have changed the host to take a whole
 * family: `m5.*`.
 */
export function toHost(answer: sdk.Host): SeenHost | undefined {
  const { HostId: id, HostProperties, AvailableCapacity, Instances = [], Tags = [] } = answer;
  const owner = Tags.find(({ Key }) => Key === ownTags.owner)?.Value;
  const { InstanceFamily } = HostProperties ?? {};
  const ofFamily = InstanceFamily === undefined ? undefined : `${InstanceFamily}.*`;
  const instanceType = HostProperties?.InstanceType ?? ofFamily;
  if (id === undefined || owner === undefined || instanceType === undefined) return undefined;
  const capacity = AvailableCapacity?.AvailableInstanceCapacity?.find(
    ({ InstanceType }) => InstanceType === instanceType,
  );
  return {
    host: {
      id,
      owner,
      instanceType,
      zone: answer.AvailabilityZone ?? "",
      allocatedAt: (answer.AllocationTime ?? new Date(0)).toISOString(),
      instanceIds: Instances.flatMap(({ InstanceId }) => InstanceId ?? []),
    },
    state: answer.State ?? "",
    room: capacity?.AvailableCapacity ?? 0,
  };
}
