import { statfs, writeFile } from "node:fs/promises";
import { runCommand } from "@kip/base";

/** Space on a file system. */
export interface DiskRoom {
  readonly sizeBytes: number;
  readonly freeBytes: number;
  readonly inodes: number;
  readonly freeInodes: number;
}

/** The usage of a folder. */
export interface FolderUsage {
  readonly bytes: number;
  /** Number of files and folders. */
  readonly inodes: number;
}

/** Measures the disk of the cell. */
export interface DiskMeter {
  /** Space on the file system that contains this folder. */
  room(folder: string): Promise<DiskRoom>;
  /**
   * The usage of each folder, including everything below it on the same file system. 0 for a folder that does not exist. What
   * is not read within the time limit does not count.
   */
  usage(
    folders: readonly string[],
    options: UsageOptions,
  ): Promise<ReadonlyMap<string, FolderUsage>>;
}

/** Options of {@link DiskMeter.usage}. */
export interface UsageOptions {
  readonly limitSeconds: number;
  readonly signal: AbortSignal;
}

/** Cgroup of the programs that walk through folders. Not available on a host without cgroup v2. */
const walkCgroup = "/sys/fs/cgroup/kip-disk-usage";

/**
 * Runs in separate programs, with at most a tenth of a CPU, because there may be millions of files on a slow disk. `find`
 * descends to any depth, and stays on the file system. A file with several links counts proportionally for each, so no list of
 * seen files is needed. Memory is mainly used by the kernel for the files, and is released within the cgroup's limit. If `find`
 * itself needs more, it is killed, and its results so far count.
 */
const walk = `
cgroup=${walkCgroup}
{
  mkdir -p $cgroup && echo 1 >$cgroup/cgroup.kill
  echo "10000 100000" >$cgroup/cpu.max && echo 64M >$cgroup/memory.max && echo 0 >$cgroup/cgroup.procs
} 2>/dev/null
limit=$1
shift
export LC_ALL=C
timeout -s KILL "$limit" find "$@" -xdev -printf '%y %b %n %H\\n' 2>/dev/null | awk '
  {
    share = $1 == "d" || $3 == 0 ? 1 : 1 / $3
    folder = substr($0, length($1 $2 $3) + 4)
    blocks[folder] += share * $2
    inodes[folder] += share
  }
  END { for (folder in blocks) printf "%.0f %.0f %s\\n", 512 * blocks[folder], inodes[folder], folder }'
`;

/** Uses the kernel's figures, and programs that every Linux has. */
export const systemDiskMeter: DiskMeter = {
  room: async (folder) => {
    const { blocks, bavail, bsize, files, ffree } = await statfs(folder);
    return {
      sizeBytes: blocks * bsize,
      freeBytes: bavail * bsize,
      inodes: files,
      freeInodes: ffree,
    };
  },
  usage: async (folders, { limitSeconds, signal }) => {
    try {
      const { stdout } = await runCommand(
        "sh",
        ["-c", walk, "sh", String(limitSeconds), ...folders],
        { signal },
      );
      return new Map(stdout.trimEnd().split("\n").flatMap(readLine));
    } finally {
      // Programs that the shell has started outlive it.
      if (signal.aborted) await writeFile(`${walkCgroup}/cgroup.kill`, "1").catch(() => {});
    }
  },
};

function readLine(line: string): readonly (readonly [string, FolderUsage])[] {
  const [, bytes, inodes, folder = ""] = /^(\d+) (\d+) (.*)$/s.exec(line) ?? [];
  return folder === "" ? [] : [[folder, { bytes: Number(bytes), inodes: Number(inodes) }]];
}
