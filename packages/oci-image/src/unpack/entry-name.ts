import { unsafeEntry } from "../errors.ts";

/**
 * The parts of a name in an archive. A slash at its start and `.` mean nothing, as with Docker and
 * containerd; `..` is refused, wherever it leads: no builder writes it.
 *
 * @throws {ImageError} code `IMAGE_UNSAFE_ENTRY`
 */
export function splitEntryName(name: string): string[] {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw unsafeEntry(`${JSON.stringify(name)} climbs with ".."`);
  return parts;
}
