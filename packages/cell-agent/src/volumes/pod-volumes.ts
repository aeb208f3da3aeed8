import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { AgentError, type DesiredPod, type DesiredVolume } from "@kip/agent-api";
import { errorText, removeTree, isSystemError } from "@kip/base";
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

/**
 * Makes the volumes of the pod, or brings them up to date: called again with a newer pod, it
 * exchanges the files that changed and touches nothing else.
 *
 * @returns the directory or file on this machine by volume name; none for images, which each run mounts for itself
 * @throws {AgentError} code `AGENT_VOLUME_FAILED`, with the kubelet's words
 */
export async function makeVolumes(
  pod: DesiredPod,
  directories: AgentDirectories,
  mounter: Mounter,
): Promise<ReadonlyMap<string, string>> {
  const paths = new Map<string, string>();
  if (pod.volumes.some((volume) => volume.kind === "files"))
    await prepareVolumes(directories, mounter);
  for (const volume of pod.volumes.filter(({ kind }) => kind !== "image")) {
    try {
      paths.set(volume.name, await makeVolume(volume, pod, { directories, mounter }));
    } catch (error) {
      throw new AgentError(
        "AGENT_VOLUME_FAILED",
        `MountVolume.SetUp failed for volume "${volume.name}" : ${errorText(error)}`,
        { cause: error },
      );
    }
  }
  return paths;
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
  options: { readonly directories: AgentDirectories; readonly mounter: Mounter },
): Promise<string> {
  const { directories, mounter } = options;
  switch (volume.kind) {
    case "files": {
      const directory = path.join(directories.secretVolumes, volume.name);
      const owner = ownUsersOf(pod)?.firstId;
      writeFilesVolume(directory, volume.files ?? [], { group: pod.fsGroup, owner });
      return directory;
    }
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
      await checkHostPath(volume.hostPath ?? "/", volume.hostPathType ?? "");
      return volume.hostPath ?? "/";
    default:
      return await makeEmptyDir(volume, pod, options);
  }
}

/** Whether a volume is in memory: a tmpfs, or huge pages. */
export function isMemory({ kind, medium = "" }: DesiredVolume): boolean {
  return kind === "emptyDir" && (medium === "Memory" || isHugePages(medium));
}

/** One that is there stays as it is: its owner and mode may be the pod's choice by now. */
async function makeEmptyDir(
  volume: DesiredVolume,
  pod: Pick<DesiredPod, "fsGroup" | "hostUsers" | "hugePages">,
  { directories, mounter }: { readonly directories: AgentDirectories; readonly mounter: Mounter },
): Promise<string> {
  const { fsGroup: group } = pod;
  if (isMemory(volume)) {
    const directory = path.join(directories.memoryVolumes, volume.name);
    await fs.mkdir(directory, { recursive: true });
    const { sizeLimitBytes: sizeBytes, medium = "" } = volume;
    await mounter.mountTmpfs(directory, {
      sizeBytes,
      pageBytes: isHugePages(medium) ? pageBytesOf(medium, pod) : undefined,
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
