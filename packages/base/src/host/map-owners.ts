import { mapOwnersScript } from "../gen/scripts.gen.ts";
import { runCommand } from "./run-command.ts";

/**
 * Shows folders and files at other, existing places of their kind, with the owners that a user namespace makes of theirs: its
 * user 0 owns what the machine's user 0 owns. Nothing is copied. Needs root, and Linux 5.12.
 *
 * @param namespace file that names the user namespace
 * @param pairs sources and places
 * @throws {CommandError} `COMMAND_FAILED`, also where a file system cannot do it, as tmpfs before Linux 6.3
 */
export async function mapOwners(
  namespace: string,
  pairs: readonly (readonly [string, string])[],
): Promise<void> {
  const words = ["-e", mapOwnersScript, namespace, ...pairs.flat()];
  await runCommand("/usr/bin/perl", words, { env: { PATH: "/usr/bin:/bin" } });
}
