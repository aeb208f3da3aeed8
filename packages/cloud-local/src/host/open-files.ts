import { readdir, readFile, stat } from "node:fs/promises";
import { findProcesses, type ProcessGroup } from "./processes.ts";

/** Whether a process of the group has the file open or mapped, under any name. */
export async function hasOpen(group: ProcessGroup, file: string): Promise<boolean> {
  const wanted = await stat(file);
  const isWanted = ({ dev, ino }: { dev: number; ino: number }): boolean =>
    dev === wanted.dev && ino === wanted.ino;
  for (const pid of await findProcesses(group)) {
    const names = await readdir(`/proc/${pid}/fd`).catch(() => []); // the process has ended
    for (const name of names) {
      const open = await stat(`/proc/${pid}/fd/${name}`).catch(() => undefined);
      if (open && isWanted(open)) return true;
    }
    // "7f00-7f01 rw-s 00000000 fe:00 131 /disk.raw". There is a link to the file, named after the range.
    const maps = await readFile(`/proc/${pid}/maps`, "utf8").catch(() => "");
    for (const line of maps.split("\n")) {
      const [range = "", , , , inode] = line.split(/\s+/);
      if (inode !== String(wanted.ino)) continue;
      const mapped = await stat(`/proc/${pid}/map_files/${range}`).catch(() => undefined);
      if (mapped && isWanted(mapped)) return true;
    }
  }
  return false;
}
