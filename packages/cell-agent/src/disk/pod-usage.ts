import type { AgentDirectories } from "../storage/agent-directories.ts";
import type { PodState } from "../state/pod-state.ts";
import type { PodUsage } from "./eviction.ts";

/** The folders on the disk that a pod can fill, by what they belong to. */
export interface PodFolders {
  readonly volumes: ReadonlyMap<string, string>;
  /** What a container has written, with the volumes of its image, and its logs. */
  readonly containers: ReadonlyMap<string, readonly string[]>;
  readonly others: readonly string[];
}

/** The folders of a pod. Its ConfigMaps, Secrets and tmpfs volumes are not on the disk. */
export function podFolders(
  { desired, containers }: Pick<PodState, "desired" | "containers">,
  directories: AgentDirectories,
): PodFolders {
  const emptyDirs = (desired?.volumes ?? []).filter(
    ({ kind, medium }) => kind === "emptyDir" && medium !== "Memory",
  );
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
    others: [directories.podFiles],
  };
}

/** All folders, each once. */
export function allFolders({ volumes, containers, others }: PodFolders): readonly string[] {
  return [...volumes.values(), ...[...containers.values()].flat(), ...others];
}

/** The usage of a pod's parts, from that of its folders. */
export function podUsage(folders: PodFolders, bytes: ReadonlyMap<string, number>): PodUsage {
  const of = (paths: readonly string[]): number =>
    paths.reduce((sum, path) => sum + (bytes.get(path) ?? 0), 0);
  return {
    volumes: new Map([...folders.volumes].map(([name, path]) => [name, of([path])])),
    containers: new Map([...folders.containers].map(([name, paths]) => [name, of(paths)])),
    totalBytes: of(allFolders(folders)),
  };
}
