import { readFile } from "node:fs/promises";

/** Whether something is mounted at exactly this folder. */
export async function isMounted(directory: string): Promise<boolean> {
  return (await mountPoints()).includes(directory);
}

/** Those of the places at which something is mounted. */
export async function mountedOf(places: readonly string[]): Promise<readonly string[]> {
  const points = new Set(await mountPoints());
  return places.filter((place) => points.has(place));
}

/** Mount points below a folder, the last mount first, which is the order for unmounting. */
export async function mountsBelow(directory: string): Promise<readonly string[]> {
  const points = await mountPoints();
  return points.filter((point) => point.startsWith(`${directory}/`)).toReversed();
}

/** In the order in which they were mounted. */
async function mountPoints(): Promise<readonly string[]> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8");
  return mounts.split("\n").map((line) => unescape(line.split(" ")[4] ?? ""));
}

/** Decodes the kernel's escapes: spaces and backslashes as three octal digits, proc(5). */
function unescape(field: string): string {
  return field.replaceAll(/\\([0-7]{3})/g, (_all, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
