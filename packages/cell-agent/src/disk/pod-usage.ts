import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { PodState } from "../state/pod-state.ts";
import { isMemory } from "../volumes/pod-volumes.ts";
import type { FolderUsage } from "./disk-meter.ts";
import type { PodUsage } from "./eviction.ts";

/** The folders on the disk that a pod can fill, by owner. */
export interface PodFolders {
  readonly volumes: ReadonlyMap<string, string>;
  /** A container's logs, its files, and the volumes of its image. */
  readonly containers: ReadonlyMap<string, readonly string[]>;
  readonly others: readonly string[];
  /** ConfigMaps, Secrets and the like, which are not on the disk. */
  readonly inMemory: ReadonlyMap<string, string>;
}

/** The folders of a pod. */
export function podFolders(
  { desired, containers, leftovers }: Pick<PodState, "desired" | "containers" | "leftovers">,
  directories: AgentDirectories,
): PodFolders {
  const all = desired?.volumes ?? [];
  const emptyDirs = all.filter((volume) => volume.kind === "emptyDir" && !isMemory(volume));
  const files = all.filter(({ kind }) => kind === "files");
  return {
    volumes: new Map(emptyDirs.map(({ name }) => [name, `${directories.diskVolumes}/${name}`])),
    containers: new Map(
      [...containers].map(([name, { saved }]) => [
        name,
        [
          `${directories.logs}/${name}`,
          ...(saved.run ? [`${directories.containers}/${saved.run.id}`] : []),
        ],
      ]),
    ),
    others: [directories.podFiles, ...leftovers.map((id) => `${directories.containers}/${id}`)],
    inMemory: new Map(files.map(({ name }) => [name, `${directories.secretVolumes}/${name}`])),
  };
}

/** Folders of volumes with their own file systems, by volume name. */
export function ownFileSystems(
  { desired }: Pick<PodState, "desired">,
  directories: AgentDirectories,
): ReadonlyMap<string, string> {
  return new Map(
    (desired?.volumes ?? []).flatMap((volume): (readonly [string, string])[] => {
      if (isMemory(volume)) return [[volume.name, `${directories.memoryVolumes}/${volume.name}`]];
      return volume.kind === "disk" ? [[volume.name, `${directories.disks}/${volume.name}`]] : [];
    }),
  );
}

/** All folders on the disk, without duplicates. */
export function allFolders({ volumes, containers, others }: PodFolders): readonly string[] {
  return [...volumes.values(), ...[...containers.values()].flat(), ...others];
}

/** The usage of a pod's parts, from that of its folders. */
export function podUsage(folders: PodFolders, found: ReadonlyMap<string, FolderUsage>): PodUsage {
  const of = (paths: readonly string[]): number =>
    paths.reduce((sum, path) => sum + (found.get(path)?.bytes ?? 0), 0);
  return {
    volumes: new Map([...folders.volumes].map(([name, path]) => [name, of([path])])),
    containers: new Map([...folders.containers].map(([name, paths]) => [name, of(paths)])),
    totalBytes: of(allFolders(folders)),
  };
}
