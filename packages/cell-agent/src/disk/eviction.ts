import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { formatBytes, formatDecimal } from "@kip/base";
import type { DiskRoom } from "./disk-meter.ts";

/** What the parts of a pod take on the disk, bytes. */
export interface PodUsage {
  /** emptyDirs by the name of the volume. */
  readonly volumes: ReadonlyMap<string, number>;
  /** Files and logs by the name of the container. */
  readonly containers: ReadonlyMap<string, number>;
  /** All of it, and what else the pod has. */
  readonly totalBytes: number;
}

/** The smallest limit of the pod on the disk, bytes; undefined if it has none, or is too important to be evicted. */
export function smallestLimit(pod: DesiredPod): number | undefined {
  const { isCritical, volumes, containers, ephemeralStorageLimit } = pod;
  if (isCritical === true) return undefined;
  const limits = [
    ...volumes.flatMap((volume) => (isLimited(volume) ? (volume.sizeLimitBytes ?? []) : [])),
    ...containers.flatMap(({ ephemeralStorage }) => ephemeralStorage?.limit?.bytes ?? []),
    ephemeralStorageLimit?.bytes ?? [],
  ].flat();
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/**
 * Why the pod is to be evicted for what it takes, as the kubelet's eviction manager has it: in its words, and what it looks
 * at first comes first. Undefined if no limit is exceeded.
 *
 * @see https://kubernetes.io/docs/concepts/storage/ephemeral-storage/
 */
export function exceededLimit(pod: DesiredPod, usage: PodUsage): string | undefined {
  if (pod.isCritical === true) return undefined;
  for (const volume of pod.volumes) {
    const { name, sizeLimitBytes = 0, sizeLimit = formatBytes(sizeLimitBytes) } = volume;
    if (isLimited(volume) && (usage.volumes.get(name) ?? 0) > sizeLimitBytes)
      return `Usage of EmptyDir volume "${name}" exceeds the limit "${sizeLimit}". `;
  }
  const ofPod = pod.ephemeralStorageLimit;
  if (ofPod && usage.totalBytes > ofPod.bytes)
    return `Pod ephemeral local storage usage exceeds the total limit of containers ${ofPod.text}. `;
  for (const { name, ephemeralStorage } of pod.containers) {
    const limit = ephemeralStorage?.limit;
    if (limit && limit.bytes !== 0 && (usage.containers.get(name) ?? 0) > limit.bytes)
      return `Container ${name} exceeded its local ephemeral storage limit "${limit.text}". `;
  }
  return undefined;
}

/** A limit of 0 is none. A volume in memory has its limit from the kernel. */
function isLimited({
  kind,
  medium = "",
  sizeLimitBytes = 0,
}: DesiredPod["volumes"][number]): boolean {
  return kind === "emptyDir" && medium === "" && sizeLimitBytes > 0;
}

/** What the disk is short of, with the threshold and what is left, as the kubelet writes them. */
export interface Shortage {
  readonly resource: "ephemeral-storage" | "inodes";
  readonly threshold: string;
  readonly available: string;
}

/**
 * Whether the disk is so full that the kubelet would evict a pod: by its defaults for `nodefs`, which it has as numbers of 32
 * bits. Its 15 % for `imagefs` keep room for the images of other pods, which a cell never has.
 *
 * @see https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
 */
export function shortage(room: DiskRoom): Shortage | undefined {
  const bytes = Math.trunc(room.sizeBytes * Math.fround(0.1));
  const inodes = Math.trunc(room.inodes * Math.fround(0.05));
  if (room.freeBytes < bytes) return shortOf("ephemeral-storage", bytes, room.freeBytes);
  return room.freeInodes < inodes ? shortOf("inodes", inodes, room.freeInodes) : undefined;
}

function shortOf(resource: Shortage["resource"], threshold: number, available: number): Shortage {
  const format = resource === "inodes" ? formatDecimal : formatBytes;
  return { resource, threshold: formatBytes(threshold), available: format(available) };
}

/** Why the pod is to be evicted from a disk that is full, in the kubelet's words. */
export function shortageMessage(found: Shortage, pod: DesiredPod, usage: PodUsage): string {
  const { resource, threshold, available } = found;
  const low = `The node was low on resource: ${resource}. `;
  const figures = `Threshold quantity: ${threshold}, available: ${available}. `;
  const parts = resource === "inodes" ? [] : [...pod.containers, ...pod.initContainers];
  return `${low}${figures}${parts.map((one) => largerUse(one, usage)).join("")}`;
}

function largerUse({ name, ephemeralStorage }: DesiredContainer, usage: PodUsage): string {
  const request = ephemeralStorage?.request ?? { bytes: 0, text: "0" };
  const used = usage.containers.get(name);
  if (used === undefined || used <= request.bytes) return "";
  const amounts = `was using ${formatBytes(used)}, request is ${request.text}`;
  return `Container ${name} ${amounts}, has larger consumption of ephemeral-storage. `;
}
