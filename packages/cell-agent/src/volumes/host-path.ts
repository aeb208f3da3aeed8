import fs from "node:fs/promises";
import path from "node:path";
import type { Stats } from "node:fs";
import { AgentError } from "@kip/agent-api";
import { createFile, makeFolder, isSystemError } from "@kip/base";

/** What a hostPath type wants to find. */
const checks: Readonly<Record<string, { is: (stat: Stats) => boolean; noun: string }>> = {
  Directory: { is: (stat) => stat.isDirectory(), noun: "a directory" },
  DirectoryOrCreate: { is: (stat) => stat.isDirectory(), noun: "a directory" },
  File: { is: (stat) => stat.isFile(), noun: "a file" },
  FileOrCreate: { is: (stat) => stat.isFile(), noun: "a file" },
  Socket: { is: (stat) => stat.isSocket(), noun: "a socket" },
  CharDevice: { is: (stat) => stat.isCharacterDevice(), noun: "a character device" },
  BlockDevice: { is: (stat) => stat.isBlockDevice(), noun: "a block device" },
};

/**
 * Checks a path of the cell itself against its Kubernetes type, and makes it where the type says so, or where there is no type
 * and nothing at the path.
 *
 * @throws {AgentError} code `AGENT_VOLUME_INVALID`
 */
export async function checkHostPath(hostPath: string, type: string): Promise<void> {
  if (type === "") {
    if (!(await statOf(hostPath))) await makeFolder(hostPath, 0o755, { recursive: true });
    return;
  }
  const check = checks[type];
  if (!check) throw failed(`there is no type "${type}"`);
  const stat = await statOf(hostPath);
  if (stat) {
    if (!check.is(stat)) throw failed(`${hostPath} is not ${check.noun}`);
    return;
  }
  if (type === "DirectoryOrCreate") {
    await makeFolder(hostPath, 0o755, { recursive: true });
  } else if (type === "FileOrCreate") {
    await makeFolder(path.dirname(hostPath), 0o755, { recursive: true });
    await (await createFile(hostPath, 0o644)).close();
  } else {
    throw failed(`${hostPath} is not ${check.noun}`);
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

function failed(reason: string): AgentError {
  return new AgentError("AGENT_VOLUME_INVALID", `hostPath type check failed: ${reason}`);
}
