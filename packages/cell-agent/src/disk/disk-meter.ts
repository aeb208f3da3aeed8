import { statfs, writeFile } from "node:fs/promises";
import { runCommand } from "@kip/base";

/** Room on a file system. */
export interface DiskRoom {
  readonly sizeBytes: number;
  readonly freeBytes: number;
  readonly inodes: number;
  readonly freeInodes: number;
}

/** What a folder takes. */
export interface FolderUsage {
  readonly bytes: number;
  /** Files and folders. */
  readonly inodes: number;
}

/** Measures the disk of the cell. */
export interface DiskMeter {
  /** Room on the file system that has this folder. */
  room(folder: string): Promise<DiskRoom>;
  /**
   * What each folder takes, with all below it on the same file system; a folder that is not there takes none. What is not
   * read within the limit does not count.
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

/** Of the programs that walk through folders; none on a host without cgroup v2. */
const walkCgroup = "/sys/fs/cgroup/kip-disk-usage";

/**
 * Not in this process, and with a tenth of a processor at most: what is walked through can be millions of files, on a disk that
 * answers slowly. `find` goes down to any depth, and stays on the file system. A file counts with its share for each of its
 * links, so that nothing has to be remembered of it. Memory: the kernel's own for the files, above all, which it gives back
 * within the limit of the cgroup; should `find` itself need more, it is killed, and what it has found counts.
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

/** The kernel's figures, and programs that every Linux has. */
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
