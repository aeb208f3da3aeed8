import { access, constants } from "node:fs/promises";
import { resolve } from "node:path";
import { runCommand } from "@kip/base";
import { ControlPlaneError } from "../errors.ts";
import { binariesIn, programNames, type Binaries } from "./pinned-version.ts";

/**
 * The programs in a directory that the user names, whatever their version.
 *
 * @throws {ControlPlaneError} `KUBERNETES_PROGRAMS_MISSING` if one does not exist or cannot be run
 */
export async function readUserDirectory(directory: string): Promise<Binaries> {
  const found = binariesIn(resolve(directory));
  const missing: string[] = [];
  for (const name of programNames) {
    if (!(await isExecutable(found.paths[name]))) missing.push(name);
  }
  if (missing.length > 0) throw unusable(directory, `it has no program ${missing.join(", ")}`);
  const version = await versionOf(found.paths["kube-apiserver"]).catch((error: unknown) => {
    throw unusable(directory, "its kube-apiserver does not run", error);
  });
  if (version === undefined) throw unusable(directory, "its kube-apiserver tells no version");
  return { ...found, version };
}

async function versionOf(apiServer: string): Promise<string | undefined> {
  const { stdout } = await runCommand(apiServer, ["--version"]);
  return /v\d+\.\d+\.\d+\S*/.exec(stdout)?.[0];
}

async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

function unusable(directory: string, reason: string, cause?: unknown): ControlPlaneError {
  const message = `Cannot use the Kubernetes programs in "${directory}": ${reason}`;
  return new ControlPlaneError("KUBERNETES_PROGRAMS_MISSING", message, {
    cause,
    remedy: `Put ${programNames.join(", ")} there, or leave the directory out to have them obtained`,
  });
}
