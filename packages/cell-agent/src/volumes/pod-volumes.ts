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
 * Makes what nearly every pod needs, as nearly every pod has a token. Not beside {@link makeVolumes},
 * which makes what is missing.
 */
export async function prepareVolumes(
  directories: AgentDirectories,
  mounter: Mounter,
): Promise<void> {
  const directory = directories.secretVolumes;
  mkdirSync(directory, { recursive: true });
  // Own tmpfs: scripts in ConfigMaps must be executable, which /run forbids.
  if (statSync(directory).dev === statSync(path.dirname(directory)).dev)
    await mounter.mountTmpfs(directory, {});
  chmodSync(directory, 0o755);
}

/** Options of {@link makeVolumes}. */
export interface MakeVolumesOptions {
  readonly directories: AgentDirectories;
  readonly mounter: Mounter;
  /** Containers have run with these volumes: what is at a hostPath by now is the pod's affair. @default false */
  readonly hasRun?: boolean;
}

/**
 * Makes the volumes of the pod. Called again, after a restart of the agent, it makes what is missing, exchanges the files that
 * changed, and touches nothing else. One that fails does not keep the others from being made: a hostPath may need what another
 * one makes.
 *
 * @returns the directory or file on this machine by volume name; none for images, which each run mounts for itself
 * @throws {AgentError} code `AGENT_VOLUME_FAILED`, with the kubelet's words, of the first that failed
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
 * Brings the volumes up to date with a newer pod. As with a kubelet, only those of files are written again: what the others were
 * when the pod started is what it has. One that fails does not keep the others from it.
 *
 * @throws {AgentError} code `AGENT_VOLUME_FAILED`, with the kubelet's words, of the first that failed
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
 * Frees what {@link makeVolumes} made, with all its content but that of disks. These come first: what was written to them is
 * safe then, whatever hinders the removal of the rest.
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
  // What containers have mounted there is not removed with its content: it may be a folder of the cell, or a disk.
  await mounter.unmountBelow(directories.diskVolumes);
  const all = [directories.diskVolumes, directories.memoryVolumes, directories.secretVolumes];
  for (const directory of all) await removeTree(directory);
}

/** Not as other volumes: what is on a disk outlives the pod. */
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
  { name, files = [] }: DesiredVolume,
  pod: DesiredPod,
  { secretVolumes }: AgentDirectories,
): string {
  const directory = path.join(secretVolumes, name);
  writeFilesVolume(directory, files, { group: pod.fsGroup, owner: ownUsersOf(pod)?.firstId });
  return directory;
}

/** Whether a volume is in memory: a tmpfs, or huge pages. */
export function isMemory({ kind, medium = "" }: DesiredVolume): boolean {
  return kind === "emptyDir" && (medium === "Memory" || isHugePages(medium));
}

/** One that is there stays as it is: its owner and mode may be the pod's choice by now. */
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
  const draft = `${directory}.new`; // no volume is named so
  await fs.mkdir(draft, { recursive: true });
  if (group !== undefined) await fs.chown(draft, 0, group);
  await fs.chmod(draft, group === undefined ? 0o777 : 0o2777);
  await fs.rename(draft, directory);
  return directory;
}

/** As a kubelet sizes a tmpfs: the least of what the machine has for pods, what the pod may use, and the volume's own limit. */
function memorySize({ sizeLimitBytes = 0 }: DesiredVolume, pod: DesiredPod): number {
  const amounts = countedContainers(pod).map((one) => [one.name, amountsOf(one)] as const);
  const { memoryBytesLimit = 0 } = podLimits(pod, Object.fromEntries(amounts));
  const { memoryBytes = 0 } = pod.machine ?? {};
  const sizes = [largestTmpfs(pod), memoryBytes, memoryBytesLimit, sizeLimitBytes];
  return Math.min(...sizes.filter((size) => size > 0));
}
