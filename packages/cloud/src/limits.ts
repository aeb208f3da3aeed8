import type { LaunchRequest, VolumeRequest } from "./cloud-driver.ts";
import { CloudError } from "./errors.ts";

/**
 * Limits that fit every cloud: the smallest of EC2, Compute Engine metadata and Azure, less what a driver needs for itself.
 * Lengths are in UTF-16 code units, as in JavaScript.
 */
export const cloudLimits = {
  userDataBytes: 16_000,
  tags: 40,
  tagKeyLength: 127,
  tagValueLength: 255,
  diskBytes: 2 ** 20,
} as const;

/**
 * Refuses a launch that at least one cloud could never do, so that all drivers refuse the same launches.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export function checkLaunchRequest(request: LaunchRequest): void {
  const { userDataBytes } = cloudLimits;
  if (request.userData.byteLength > userDataBytes) {
    throw invalid("start an instance", `its user data has more than ${userDataBytes} bytes`);
  }
  checkTags("start an instance", request.tags);
}

/**
 * Refuses tags that at least one cloud would not accept.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export function checkInstanceTags(tags: Readonly<Record<string, string>>): void {
  checkTags("tag an instance", tags);
}

/**
 * Refuses an invalid volume.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export function checkVolumeRequest(request: VolumeRequest): void {
  const { sizeBytes, tags } = request;
  checkDiskSize("create a volume", sizeBytes);
  checkTags("create a volume", tags);
}

/**
 * Refuses an invalid size of a root disk.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export function checkRootDiskSize(sizeBytes: number): void {
  checkDiskSize("grow a root disk", sizeBytes);
}

function checkDiskSize(action: string, sizeBytes: number): void {
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes < cloudLimits.diskBytes)
    throw invalid(action, `${sizeBytes} bytes are less than 1 MiB or no whole number`);
}

function checkTags(action: string, tags: Readonly<Record<string, string>>): void {
  const entries = Object.entries(tags);
  const { tags: most, tagKeyLength, tagValueLength } = cloudLimits;
  if (entries.length > most) throw invalid(action, `it has more than ${most} tags`);
  for (const [key, value] of entries) {
    if (key === "" || key.length > tagKeyLength)
      throw invalid(action, `the tag key "${key}" has not 1 to ${tagKeyLength} characters`);
    if (value.length > tagValueLength)
      throw invalid(action, `the value of tag "${key}" has more than ${tagValueLength} characters`);
  }
}

function invalid(action: string, reason: string): CloudError {
  return new CloudError("CLOUD_INVALID_REQUEST", `Cannot ${action}: ${reason}`);
}
