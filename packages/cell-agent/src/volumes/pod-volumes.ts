import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { AgentError, type DesiredPod, type DesiredVolume } from "@kip/agent-api";
import { errorText, removeTree, isSystemError } from "@kip/base";
import { largestTmpfs } from "../admission/pod-memory.ts";
import { amountsOf, countedContainers, podLimits } from "../state/amounts.ts";
import type { AgentDirectories } from "../storage/agent-directories.ts";
import { writeFilesVolume } from "./files-volume.ts";
import { checkHostPath } from "./host-path.ts";
import { isHugePages, pageBytesOf } from "./huge-pages.ts";
import type { Mounter } from "./mounter.ts";
import { ownUsersOf } from "./own-users.ts";

/**
 * Prepares what nearly every pod needs, because nearly every pod has a token. Must not run concurrently with
 * {@link makeVolumes}, which creates what is missing.
 */
export async function prepareVolumes(
  directories: AgentDirectories,
  mounter: Mounter,
): Promise<void> {
  const directory = directories.secretVolumes;
  mkdirSync(directory, { recursive: true });
  // A separate tmpfs, because scripts in ConfigMaps must be executable, which /run forbids.
  if (statSync(directory).dev === statSync(path.dirname(directory)).dev)
    await mounter.mountTmpfs(directory, {});
  chmodSync(directory, 0o755);
}

/** Options of {@link makeVolumes}. */
export interface MakeVolumesOptions {
  readonly directories: AgentDirectories;
  readonly mounter: Mounter;
  /** Whether containers have run with these volumes. What is at a hostPath then is up to the pod. @default false */
  readonly hasRun?: boolean;
}

/**
 * Creates the pod's volumes. When called again after a restart of the agent, creates what is missing, replaces changed files,
 * and touches nothing else. A failure does not prevent creating the others, because a hostPath may need what another one
 * creates.
 *
 * @returns the path on this machine by volume name; images are not included, because each run mounts its own
 * @throws {AgentError} code `AGENT_VOLUME_FAILED` for the first failure, in the kubelet's words
 */
export async function makeVolumes(
  pod: DesiredPod,
  options: MakeVolumesOptions,
): Promise<ReadonlyMap<string, string>> {
  const paths = new Map<string, string>();
  if (pod.volumes.some(isOfFiles)) await prepareVolumes(options.directories, options.mounter);
  const failures: AgentError[] = [];
  for (const volume of pod.volumes.filter(({ kind }) => kind !== "image")) {
    try {
      paths.set(volume.name, await makeVolume(volume, pod, options));
    } catch (error) {
      failures.push(failedVolume(volume, error));
    }
  }
  if (failures[0]) throw failures[0];
  return paths;
}

/**
 * Updates the volumes for a newer pod. As in a kubelet, only those with files are written again. The others stay as they were
 * when the pod started. A failure does not prevent updating the others.
 *
 * @throws {AgentError} code `AGENT_VOLUME_FAILED` for the first failure, in the kubelet's words
 */
export function refreshVolumes(pod: DesiredPod, directories: AgentDirectories): void {
  const failures: AgentError[] = [];
  for (const volume of pod.volumes.filter(isOfFiles)) {
    try {
      makeFilesVolume(volume, pod, directories);
    } catch (error) {
      failures.push(failedVolume(volume, error));
    }
  }
  if (failures[0]) throw failures[0];
}

function isOfFiles({ kind }: DesiredVolume): boolean {
  return kind === "files";
}

function failedVolume({ name }: DesiredVolume, cause: unknown): AgentError {
  return new AgentError(
    "AGENT_VOLUME_FAILED",
    `MountVolume.SetUp failed for volume "${name}" : ${errorText(cause)}`,
    { cause },
  );
}

/**
 * Removes the volumes of {@link makeVolumes} with their content, except that of disks. Disks come first, so that their data is
 * safe even if removing the rest fails.
 */
export async function removeVolumes(
  pod: DesiredPod,
  directories: AgentDirectories,
  mounter: Mounter,
): Promise<void> {
  for (const volume of pod.volumes.filter(({ kind }) => kind === "disk"))
    await removeDisk(path.join(directories.disks, volume.name), mounter);
  for (const volume of pod.volumes.filter(isMemory))
    await mounter.unmount(path.join(directories.memoryVolumes, volume.name));
  await mounter.unmount(directories.secretVolumes);
  // What containers have mounted there must not be removed with its content. It may be a folder of the cell or a disk.
  await mounter.unmountBelow(directories.diskVolumes);
  const all = [directories.diskVolumes, directories.memoryVolumes, directories.secretVolumes];
  for (const directory of all) await removeTree(directory);
}

/** Unlike in other volumes, the data on a disk outlives the pod. */
async function removeDisk(directory: string, mounter: Mounter): Promise<void> {
  await mounter.unmountBelow(directory);
  await mounter.unmountDisk(directory);
  try {
    await fs.rmdir(directory);
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
  }
}

async function makeVolume(
  volume: DesiredVolume,
  pod: DesiredPod,
  options: MakeVolumesOptions,
): Promise<string> {
  const { directories, mounter, hasRun = false } = options;
  switch (volume.kind) {
    case "files":
      return makeFilesVolume(volume, pod, directories);
    case "disk": {
      const directory = path.join(directories.disks, volume.name);
      await fs.mkdir(directory, { recursive: true });
      await mounter.mountDisk(directory, {
        serial: volume.serial ?? "",
        readOnly: volume.readOnly ?? false,
        group: pod.fsGroup,
      });
      return directory;
    }
    case "hostPath":
      if (!hasRun) await checkHostPath(volume.hostPath ?? "/", volume.hostPathType ?? "");
      return volume.hostPath ?? "/";
    default:
      return await makeEmptyDir(volume, pod, options);
  }
}

function makeFilesVolume(
  { name, files = [], keepsFiles }: DesiredVolume,
  pod: DesiredPod,
  { secretVolumes }: AgentDirectories,
): string {
  const directory = path.join(secretVolumes, name);
  if (keepsFiles === true) {
    if (existsSync(directory)) return directory;
    throw new Error("what its files come from does not exist");
  }
  writeFilesVolume(directory, files, { group: pod.fsGroup, owner: ownUsersOf(pod)?.firstId });
  return directory;
}

/** Whether a volume is in memory: a tmpfs or huge pages. */
export function isMemory({ kind, medium = "" }: DesiredVolume): boolean {
  return kind === "emptyDir" && (medium === "Memory" || isHugePages(medium));
}

/** An existing one is not changed, because the pod may have set its owner and mode. */
async function makeEmptyDir(
  volume: DesiredVolume,
  pod: DesiredPod,
  { directories, mounter }: { readonly directories: AgentDirectories; readonly mounter: Mounter },
): Promise<string> {
  const { fsGroup: group } = pod;
  if (isMemory(volume)) {
    const directory = path.join(directories.memoryVolumes, volume.name);
    await fs.mkdir(directory, { recursive: true });
    const { sizeLimitBytes, medium = "" } = volume;
    const isOfPages = isHugePages(medium);
    await mounter.mountTmpfs(directory, {
      sizeBytes: isOfPages ? sizeLimitBytes : memorySize(volume, pod),
      pageBytes: isOfPages ? pageBytesOf(medium, pod) : undefined,
      group,
      owner: ownUsersOf(pod)?.firstId,
    });
    return directory;
  }
  const directory = path.join(directories.diskVolumes, volume.name);
  if (existsSync(directory)) return directory;
  const draft = `${directory}.new`; // no volume has this name
  await fs.mkdir(draft, { recursive: true });
  if (group !== undefined) await fs.chown(draft, 0, group);
  await fs.chmod(draft, group === undefined ? 0o777 : 0o2777);
  await fs.rename(draft, directory);
  return directory;
}

/**
 * The size of a tmpfs, as in a kubelet: the minimum of the machine's memory for pods, the pod's limit, and the volume's own
 * limit.
 */
function memorySize({ sizeLimitBytes = 0 }: DesiredVolume, pod: DesiredPod): number {
  const amounts = countedContainers(pod).map((one) => [one.name, amountsOf(one)] as const);
  const { memoryBytesLimit = 0 } = podLimits(pod, Object.fromEntries(amounts));
  const { memoryBytes = 0 } = pod.machine ?? {};
  const sizes = [largestTmpfs(pod), memoryBytes, memoryBytesLimit, sizeLimitBytes];
  return Math.min(...sizes.filter((size) => size > 0));
}
