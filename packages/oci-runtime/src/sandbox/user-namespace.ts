import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";
import type { UserNamespace } from "../contract/pod-sandbox.ts";
import { userNamespaceScript } from "../gen/scripts.gen.ts";
import type { NamespaceFiles } from "./namespaces.ts";

/**
 * Creates a user namespace and the pod's namespaces that it owns. Root in the user namespace has root's rights in them.
 *
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function makeUserNamespace(
  { file, firstId, idCount }: UserNamespace,
  others: NamespaceFiles,
): Promise<void> {
  const entries = Object.entries(others).filter((entry): entry is [string, string] => !!entry[1]);
  for (const one of [file, ...entries.map(([, other]) => other)]) {
    mkdirSync(path.dirname(one), { recursive: true });
    writeFileSync(one, "");
  }
  const limits = [String(firstId), String(idCount)];
  const words = ["-e", userNamespaceScript, process.arch, ...limits, file, ...entries.flat()];
  await runCommand("/usr/bin/perl", words, { env: { PATH: "/usr/bin:/bin" } });
}
