import { readFile } from "node:fs/promises";

/** Whether something is mounted at exactly this directory. */
export async function isMounted(directory: string): Promise<boolean> {
  return (await mountPoints()).includes(directory);
}

/** Where something is mounted below a directory, the last mount first: each can be taken away in this order. */
export async function mountsBelow(directory: string): Promise<readonly string[]> {
  const points = await mountPoints();
  return points.filter((point) => point.startsWith(`${directory}/`)).toReversed();
}

/** In the order in which they were mounted. */
async function mountPoints(): Promise<readonly string[]> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8");
  return mounts.split("\n").map((line) => unescape(line.split(" ")[4] ?? ""));
}

/** The kernel writes blanks and backslashes as three octal digits, proc(5). */
function unescape(field: string): string {
  return field.replaceAll(/\\([0-7]{3})/g, (_all, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
