import type { DiskStats } from "@kip/agent-api";
import type { DiskRoom, FolderUsage } from "../disk/disk-meter.ts";
import type { PodFolders } from "../disk/pod-usage.ts";
import { allFolders } from "../disk/pod-usage.ts";

/** After this time without a reader, the disk watch no longer walks through folders for them, milliseconds. */
const wantedMs = 600_000;

/** Space on the file systems of a pod. */
export interface MeasuredRooms {
  readonly disk: DiskRoom;
  /** Volumes with their own file systems, by name. */
  readonly mounts: ReadonlyMap<string, DiskRoom>;
}

/** A walk through the folders of a pod. */
export interface MeasuredFolders {
  readonly folders: PodFolders;
  readonly found: ReadonlyMap<string, FolderUsage>;
}

/** The last measurements of the disk watch. Reading them does not measure anything. */
export class DiskFigures {
  #rooms: (MeasuredRooms & { readonly timeMs: number }) | undefined;
  #walk: (MeasuredFolders & { readonly timeMs: number }) | undefined;
  #wantedUntilMs = 0;

  keepRooms(rooms: MeasuredRooms, timeMs: number): void {
    this.#rooms = { ...rooms, timeMs };
  }

  keepWalk(walk: MeasuredFolders, timeMs: number): void {
    this.#walk = { ...walk, timeMs };
  }

  /** Whether the figures were read within the last ten minutes. */
  isWanted(nowMs: number): boolean {
    return nowMs < this.#wantedUntilMs;
  }

  /** The figures for kip. Undefined before the first measurement. */
  read(nowMs: number): DiskStats | undefined {
    this.#wantedUntilMs = nowMs + wantedMs;
    if (!this.#rooms) return undefined;
    const { timeMs, disk, mounts } = this.#rooms;
    return {
      time: new Date(timeMs).toISOString(),
      ...disk,
      mounts: Object.fromEntries(mounts),
      walk: this.#walk && walkStats(this.#walk, this.#walk.timeMs),
    };
  }
}

function walkStats({ folders, found }: MeasuredFolders, timeMs: number): DiskStats["walk"] {
  const of = (paths: readonly string[]): FolderUsage =>
    paths.reduce(
      (sum, path) => {
        const { bytes, inodes } = found.get(path) ?? { bytes: 0, inodes: 0 };
        return { bytes: sum.bytes + bytes, inodes: sum.inodes + inodes };
      },
      { bytes: 0, inodes: 0 },
    );
  const volumes = [...folders.volumes, ...folders.inMemory];
  return {
    time: new Date(timeMs).toISOString(),
    pod: of(allFolders(folders)),
    containers: Object.fromEntries(
      [...folders.containers].map(([name, [logs = "", ...files]]) => [
        name,
        { files: of(files), logs: of([logs]) },
      ]),
    ),
    volumes: Object.fromEntries(volumes.map(([name, path]) => [name, of([path])])),
  };
}
