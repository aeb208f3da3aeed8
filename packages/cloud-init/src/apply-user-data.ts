import { mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { errorText, KipError, runCommand } from "@kip/base";
import type { CloudConfig, WriteFile } from "./user-data.ts";

/** Options of {@link applyUserData}. */
export interface ApplyUserDataOptions {
  /** Put before every path, and where `/etc/passwd` is looked up; for tests. @default "/" */
  readonly root?: string;
  /** Sets the machine's name. @default writes `/etc/hostname` and tells the kernel */
  readonly setHostname?: (name: string) => Promise<void>;
  /** Runs one entry of `runcmd`. @default runs it on this machine */
  readonly run?: (file: string, args: readonly string[]) => Promise<unknown>;
}

/** What {@link applyUserData} did. */
export interface ApplyResult {
  /** Paths written, in order. */
  readonly written: readonly string[];
  /** One for each entry that failed; the entries after it were applied all the same. */
  readonly errors: readonly KipError[];
}

/**
 * Does what the user data asks: files, then the host name, then commands.
 *
 * A file appears whole, with its owner and mode, or not at all. Never throws for an entry: failures are in `errors`,
 * each with the code `USER_DATA_APPLY_FAILED`.
 */
export async function applyUserData(
  config: CloudConfig,
  options: ApplyUserDataOptions = {},
): Promise<ApplyResult> {
  const root = options.root ?? "/";
  const run = options.run ?? (async (file, args) => await runCommand(file, args));
  const written: string[] = [];
  const errors: KipError[] = [];
  for (const file of config.writeFiles) {
    await attempt(`write file "${file.path}"`, async () => {
      await writeWhole(file, root);
      written.push(file.path);
    });
  }
  const name = config.hostname;
  if (name !== undefined) {
    await attempt(`set host name "${name}"`, async () => {
      if (options.setHostname) return await options.setHostname(name);
      await writeWhole(
        { path: "/etc/hostname", content: Buffer.from(`${name}\n`), mode: 0o644 },
        root,
      );
      // The kernel's own file instead of the program: no process at a time when a pod waits.
      await writeFile("/proc/sys/kernel/hostname", name);
    });
  }
  for (const command of config.runCommands) {
    const [file = "true", ...args] = typeof command === "string" ? ["sh", "-c", command] : command;
    await attempt(`run command "${[file, ...args].join(" ")}"`, async () => {
      await run(file, args);
    });
  }
  return { written, errors };

  async function attempt(what: string, action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (cause) {
      const message = `Cannot ${what}: ${errorText(cause)}`;
      errors.push(new KipError("USER_DATA_APPLY_FAILED", message, { cause }));
    }
  }
}

async function writeWhole(file: WriteFile, root: string): Promise<void> {
  const target = path.join(root, file.path);
  await mkdir(path.dirname(target), { recursive: true, mode: 0o755 });
  const temporary = path.join(
    path.dirname(target),
    `.${path.basename(target)}.${process.pid}.part`,
  );
  // A rest of a run that was killed here; only this process uses the name now.
  await rm(temporary, { force: true });
  try {
    // Secrets come this way: nobody may read the file before it has its mode.
    await using handle = await open(temporary, "wx", 0o600);
    await handle.writeFile(file.content);
    if (file.owner !== undefined) await handle.chown(...(await findOwner(file.owner, root)));
    await handle.chmod(file.mode);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function findOwner(owner: string, root: string): Promise<[uid: number, gid: number]> {
  const [user = "", group] = owner.split(":", 2);
  const uid = await findId(path.join(root, "etc/passwd"), user);
  if (group !== undefined && group !== "")
    return [uid.id, (await findId(path.join(root, "etc/group"), group)).id];
  return [uid.id, uid.primaryGroup ?? uid.id];
}

/** Fields of passwd(5) and group(5): name, password, id, and in passwd the primary group. */
async function findId(
  database: string,
  name: string,
): Promise<{ readonly id: number; readonly primaryGroup?: number }> {
  if (/^\d+$/.test(name)) return { id: Number(name) };
  if (name === "root") return { id: 0, primaryGroup: 0 };
  for (const line of (await readFile(database, "utf8")).split("\n")) {
    const [entry, , id, fourth = ""] = line.split(":");
    if (entry !== name || id === undefined) continue;
    return { id: Number(id), ...(/^\d+$/.test(fourth) && { primaryGroup: Number(fourth) }) };
  }
  throw new KipError("USER_DATA_OWNER_UNKNOWN", `Cannot find "${name}": not in ${database}`);
}
