import { checkRootDiskSize, CloudError } from "@kip/cloud";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import type { Instances } from "../instance/instances.ts";
import { GiB, type VolumeStore } from "./volume-store.ts";

/**
 * Enlarges the root disk of a running instance. EBS allows one change in six hours, and refuses the next with
 * `CLOUD_THROTTLED`.
 */
export async function growRootDisk(
  {
    ec2,
    instances,
    store,
  }: { readonly ec2: Ec2; readonly instances: Instances; readonly store: VolumeStore },
  instanceId: string,
  sizeBytes: number,
): Promise<void> {
  checkRootDiskSize(sizeBytes);
  const purpose = `grow the root disk of instance "${instanceId}"`;
  const seen = await instances.get(instanceId);
  const id = seen?.rootVolume;
  if (seen?.instance.state !== "running" || id === undefined)
    throw new CloudError("CLOUD_NOT_FOUND", `Cannot ${purpose}: it does not run`);
  const wanted = Math.ceil(sizeBytes / GiB);
  const hasEnough = async (): Promise<true | undefined> =>
    ((await store.sizeGiB(id)) ?? 0) >= wanted ? true : undefined;
  if (await hasEnough()) return;
  await ec2.call("ModifyVolume", { VolumeId: id, Size: wanted }, { purpose });
  await store.until(purpose, hasEnough);
}
