import { readFile } from "node:fs/promises";

/** Whether something is mounted at exactly this directory. */
export async function isMounted(directory: string): Promise<boolean> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8");
  return mounts.split("\n").some((line) => line.split(" ")[4] === directory);
}
