import { open, readFile, rm, rmdir } from "node:fs/promises";
import path from "node:path";
import { makeFolder, runCommand, type Clock, type CommandResult } from "@kip/base";

/** Folder of what lives until the machine is switched off: one folder per local cloud. */
export const runtimeRoot = "/run/kip";

/**
 * After so long a program is killed, milliseconds: nft takes less for the largest change on a slow machine. What is to be changed later
 * waits for it.
 */
const limitMs = 600_000;

/**
 * A network namespace held by a bind mount at `/run/kip/<name>/netns`.
 *
 * Not below /run/netns: ip-netns(8) mounts that folder over itself at its first use, which would stay
 * on the host, and would copy our mount where we cannot remove it.
 */
export interface Namespace {
  /** The file that stands for the namespace. */
  readonly file: string;
  /** Makes it if it is not there; its loopback is up. */
  create(): Promise<void>;
  exists(): Promise<boolean>;
  /** Runs a program in it. @throws {CommandError} as `runCommand`; also after ten minutes, when the program is killed */
  run(program: string, args: readonly string[], input?: string): Promise<CommandResult>;
  /** Removes it; nothing happens if it is not there. */
  remove(): Promise<void>;
}

/** The namespace of that name, whether it is there or not. @param options.clock default the machine's */
export function namespaceOf(
  name: string,
  { clock }: { readonly clock?: Clock | undefined } = {},
): Namespace {
  const folder = path.join(runtimeRoot, name);
  const file = path.join(folder, "netns");
  const exists = async (): Promise<boolean> => {
    const mounts = await readFile("/proc/self/mountinfo", "utf8");
    return mounts.split("\n").some((line) => line.split(" ")[4] === file);
  };
  return {
    file,
    exists,
    create: async () => {
      if (await exists()) return;
      await makeFolder(folder, 0o755, { recursive: true });
      await (await open(file, "a")).close();
      await runCommand("unshare", [`--net=${file}`, "ip", "link", "set", "lo", "up"]);
    },
    run: async (program, args, input) =>
      await runCommand("nsenter", [`--net=${file}`, program, ...args], {
        input,
        timeoutMs: limitMs,
        clock,
      }),
    remove: async () => {
      while (await exists()) await runCommand("umount", [file]);
      await rm(folder, { recursive: true, force: true });
      await rmdir(runtimeRoot).catch(() => {}); // still used by another local cloud
    },
  };
}
