import fs from "node:fs/promises";
import type { Stats } from "node:fs";
import { AgentError } from "@kip/agent-api";
import { createFile, makeFolder, isSystemError } from "@kip/base";

/** What each hostPath type requires. */
const checks: Readonly<Record<string, { is: (stat: Stats) => boolean; noun: string }>> = {
  Directory: { is: (stat) => stat.isDirectory(), noun: "a directory" },
  DirectoryOrCreate: { is: (stat) => stat.isDirectory(), noun: "a directory" },
  File: { is: (stat) => stat.isFile(), noun: "a file" },
  FileOrCreate: { is: (stat) => stat.isFile(), noun: "a file" },
  Socket: { is: (stat) => stat.isSocket(), noun: "a socket file" },
  CharDevice: { is: (stat) => stat.isCharacterDevice(), noun: "a character device" },
  BlockDevice: { is: (stat) => stat.isBlockDevice(), noun: "a block device" },
};

/**
 * Checks a path of the cell itself against its Kubernetes type. Creates it if the type says so, or if there is no type and
 * nothing at the path. Follows symbolic links.
 *
 * @throws {AgentError} code `AGENT_VOLUME_INVALID`, in the kubelet's words
 */
export async function checkHostPath(hostPath: string, type: string): Promise<void> {
  if (type === "") {
    if (!(await statOf(hostPath))) await makeFolder(hostPath, 0o755, { recursive: true });
    return;
  }
  const check = checks[type];
  if (!check) throw invalid(`${type} is an invalid volume type`);
  const stat = await statOf(hostPath);
  if (stat === undefined && type === "DirectoryOrCreate")
    await makeFolder(hostPath, 0o755, { recursive: true });
  else if (stat === undefined && type === "FileOrCreate") await makeFile(hostPath);
  else if (stat === undefined || !check.is(stat))
    throw invalid(`hostPath type check failed: ${hostPath} is not ${check.noun}`);
}

/** As in a kubelet, the folder has to exist. */
async function makeFile(place: string): Promise<void> {
  try {
    await (await createFile(place, 0o644)).close();
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw invalid(`open ${place}: no such file or directory`);
    throw error;
  }
}

async function statOf(file: string): Promise<Stats | undefined> {
  try {
    return await fs.stat(file);
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}

function invalid(message: string): AgentError {
  return new AgentError("AGENT_VOLUME_INVALID", message);
}
