import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { formatBytes, formatDecimal } from "@kip/base";
import type { DiskRoom } from "./disk-meter.ts";

/** Disk usage of the parts of a pod, bytes. */
export interface PodUsage {
  /** emptyDirs by volume name. */
  readonly volumes: ReadonlyMap<string, number>;
  /** Files and logs by container name. */
  readonly containers: ReadonlyMap<string, number>;
  /** Everything, including other files of the pod. */
  readonly totalBytes: number;
}

/** The pod's smallest disk limit, bytes. Undefined if it has none, or if its priority protects it from eviction. */
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
 * Why the pod has to be evicted because of its disk usage, with the messages and the order of checks of the kubelet's eviction
 * manager. Undefined if no limit is exceeded.
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

/** A limit of 0 means no limit. The kernel enforces the limit of a volume in memory. */
function isLimited({
  kind,
  medium = "",
  sizeLimitBytes = 0,
}: DesiredPod["volumes"][number]): boolean {
  return kind === "emptyDir" && medium === "" && sizeLimitBytes > 0;
}

/** What the disk lacks, with the threshold and the remaining amount in the kubelet's notation. */
export interface Shortage {
  readonly resource: "ephemeral-storage" | "inodes";
  readonly threshold: string;
  readonly available: string;
}

/**
 * Whether the disk is so full that the kubelet would evict a pod, by its default thresholds for `nodefs`, which it stores as
 * 32-bit floats. Its 15 % for `imagefs` keep space for other pods' images, which a cell never has.
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

/** Why the pod has to be evicted from a full disk, in the kubelet's words. */
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
