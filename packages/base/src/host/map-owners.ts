import { mapOwnersScript } from "../gen/scripts.gen.ts";
import { runCommand } from "./run-command.ts";

/**
 * Mounts folders and files at other existing places, with owners mapped by a user namespace: user 0 of the namespace owns what
 * user 0 of the machine owns. Nothing is copied. Needs root and Linux 5.12.
 *
 * @param namespace file that names the user namespace
 * @param pairs sources and places, each pair of the same kind
 * @throws {CommandError} `COMMAND_FAILED`, also where a file system does not support it, such as tmpfs before Linux 6.3
 */
export async function mapOwners(
  namespace: string,
  pairs: readonly (readonly [string, string])[],
): Promise<void> {
  const words = ["-e", mapOwnersScript, namespace, ...pairs.flat()];
  await runCommand("/usr/bin/perl", words, { env: { PATH: "/usr/bin:/bin" } });
}
