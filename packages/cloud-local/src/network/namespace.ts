import { open, readFile, rm, rmdir } from "node:fs/promises";
import path from "node:path";
import { makeFolder, runCommand, type Clock, type CommandResult } from "@kip/base";

/** Folder for state until the next boot, with one folder per local cloud. */
export const runtimeRoot = "/run/kip";

/**
 * Time limit for a program, milliseconds. Even on a slow machine, nft needs less for the largest change. Later changes wait for
 * the program.
 */
const limitMs = 600_000;

/**
 * A network namespace that is kept by a bind mount at `/run/kip/<name>/netns`.
 *
 * Not below /run/netns: when ip-netns(8) is first used, it mounts that folder over itself. That mount would stay on the host,
 * and would contain a copy of Kip's mount that Kip cannot remove.
 */
export interface Namespace {
  /** The file that names the namespace. */
  readonly file: string;
  /** Creates the namespace if it does not exist, and sets its loopback device up. */
  create(): Promise<void>;
  exists(): Promise<boolean>;
  /**
   * Runs a program in the namespace. @throws {CommandError} as `runCommand`; also if the program runs for ten minutes and is
   * killed
   */
  run(program: string, args: readonly string[], input?: string): Promise<CommandResult>;
  /** Removes the namespace. Does nothing if it does not exist. */
  remove(): Promise<void>;
}

/** The namespace with that name, whether it exists or not. @param options.clock @default the system clock */
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
      await rmdir(runtimeRoot).catch(() => {}); // another local cloud still uses it
    },
  };
}
