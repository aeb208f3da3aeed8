import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { decode, type Decoded } from "@kip/base";

const { boolean, number, object, optional, string } = decode;

/** Written once a sandbox is complete. */
const decodeRecord = object({
  name: string,
  hostname: string,
  network: optional(
    object({
      podIp: string,
      hostInterface: string,
      cable: string,
      mtu: number,
      ipv6: optional(
        object({
          podIp: string,
          machineIp: string,
          gateway: optional(object({ address: string, mac: string })),
        }),
      ),
    }),
  ),
  isProcessNamespaceShared: boolean,
  ownUsers: optional(object({ firstId: number, idCount: number })),
  sharedMemoryDir: optional(string),
});

/** The facts about a sandbox that a later run of the agent needs. */
export type SandboxRecord = Decoded<typeof decodeRecord>;

/** Files of a sandbox. */
export interface SandboxFiles {
  readonly directory: string;
  readonly record: string;
  readonly ipc: string;
  readonly uts: string;
  readonly pid: string;
  readonly user: string;
  readonly net: string;
}

/** @throws {RangeError} for an invalid name of a sandbox */
export function sandboxFiles(runDir: string, name: string): SandboxFiles {
  if (!/^[a-z0-9][a-z0-9-]{0,10}$/.test(name))
    throw new RangeError(`Not a sandbox name: "${name}"`);
  const directory = path.join(runDir, "sandboxes", name);
  return {
    directory,
    record: path.join(directory, "sandbox.json"),
    ipc: path.join(directory, "ipc"),
    uts: path.join(directory, "uts"),
    pid: path.join(directory, "pid"),
    user: path.join(directory, "user"),
    // The folder of `ip netns`, so that an operator can enter the namespace by name.
    net: path.join("/run/netns", name),
  };
}

/** The record of a complete sandbox. Undefined if there is none. */
export function readSandbox(files: SandboxFiles): SandboxRecord | undefined {
  if (!existsSync(files.record)) return undefined;
  return decodeRecord(JSON.parse(readFileSync(files.record, "utf8")), files.record);
}

/** Records that a sandbox is complete. */
export function writeSandbox(files: SandboxFiles, record: SandboxRecord): void {
  writeFileSync(`${files.record}.new`, JSON.stringify(record));
  renameSync(`${files.record}.new`, files.record);
}
