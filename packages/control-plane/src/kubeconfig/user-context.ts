import { chown, mkdir, realpath, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { decode, isSystemError } from "@kip/base";
import { readIfPresent, writeWhole } from "../host/files.ts";
import { editKubeconfig, type EditTarget, type KubeconfigEdit } from "./edit-kubeconfig.ts";

/** The context and its file, see {@link removeKubeconfigContext}. */
export interface RemoveContextOptions {
  /** The user's kubeconfig, usually `~/.kube/config`. */
  readonly path: string;
  /** Name of the context, its cluster and its user. @default "kip-local" */
  readonly context?: string;
  /** Path of kip's kubectl. */
  readonly kubectl: string;
  /** File in which kip stores the original state. */
  readonly statePath: string;
}

/** Options of {@link mergeKubeconfigContext}. */
export interface KubeconfigContextOptions extends RemoveContextOptions {
  /** URL of the API server. */
  readonly server: string;
  /** The API server's certificate authority, PEM. */
  readonly ca: string;
  /** The user's client certificate and key, PEM. */
  readonly certificate: string;
  readonly key: string;
  /** Whether to make it the current context. @default true */
  readonly setCurrent?: boolean;
}

const defaultContext = "kip-local";
const memory = decode.object({
  /** The current context before kip's. Empty if there was none. */
  current: decode.string,
  madeFile: decode.boolean,
  madeDirectory: decode.boolean,
  /** The directories that kip created: the file's and its parents. @default the file's, if `madeDirectory` */
  madeDirectories: decode.optional(decode.list(decode.string)),
});
const named = decode.optional(decode.list(decode.object({ name: decode.string })));
const view = decode.object({
  "current-context": decode.optional(decode.string),
  contexts: named,
  clusters: named,
  users: named,
});
type View = decode.Decoded<typeof view>;

/**
 * Adds or updates a context in a user's kubeconfig. Everything else in the file stays. The file keeps its owner and gets mode
 * 0600. A new file gets the owner of its directory. Repeating it is safe.
 *
 * @throws {ControlPlaneError} `KUBECONFIG_LOCKED` if another program is changing the file
 * @throws {ControlPlaneError} `KUBECONFIG_INVALID` if kubectl cannot read it; the file is then unchanged
 */
export async function mergeKubeconfigContext(options: KubeconfigContextOptions): Promise<void> {
  const name = options.context ?? defaultContext;
  const madeDirectories = await ensureDirectory(dirname(options.path));
  await editKubeconfig(await targetOf(options), async (edit) => {
    const before = await read(edit);
    const stored = await remembered(options.statePath);
    const current = before["current-context"] ?? "";
    const memory = {
      // If kip's own context is current, keep the one that was stored earlier.
      current: current === name ? (stored?.current ?? "") : current,
      madeFile: stored?.madeFile ?? edit.isNew,
      madeDirectory: stored?.madeDirectory ?? madeDirectories.length > 0,
      madeDirectories: stored ? stored.madeDirectories : madeDirectories,
    };
    await writeWhole(options.statePath, JSON.stringify(memory));
    await addContext(edit, options, name);
    if (options.setCurrent ?? true) await edit.config("use-context", name);
    return "keep";
  });
}

/**
 * Removes the context. If it is still the current one, the previous one becomes current again. Removes the file if kip created
 * it and it contains nothing else. Repeating it is safe.
 *
 * @throws {ControlPlaneError} `KUBECONFIG_LOCKED`, `KUBECONFIG_INVALID` as {@link mergeKubeconfigContext}
 */
export async function removeKubeconfigContext(options: RemoveContextOptions): Promise<void> {
  const name = options.context ?? defaultContext;
  const stored = await remembered(options.statePath);
  if ((await readIfPresent(options.path)) !== undefined) {
    await editKubeconfig(await targetOf(options), async (edit) => {
      const before = await read(edit);
      if (has(before.contexts, name)) await edit.config("delete-context", name);
      if (has(before.clusters, name)) await edit.config("delete-cluster", name);
      if (has(before.users, name)) await edit.config("delete-user", name);
      if (before["current-context"] === name) await goBack(edit, before, stored?.current);
      return stored?.madeFile === true && isEmpty(await read(edit)) ? "remove" : "keep";
    });
  }
  if (stored?.madeDirectory === true) {
    for (const directory of stored.madeDirectories ?? [dirname(options.path)])
      await removeIfEmpty(directory);
  }
  await rm(options.statePath, { force: true });
}

async function addContext(
  edit: KubeconfigEdit,
  options: KubeconfigContextOptions,
  name: string,
): Promise<void> {
  const file = async (fileName: string, text: string): Promise<string> => {
    await writeWhole(join(edit.scratch, fileName), text);
    return join(edit.scratch, fileName);
  };
  await edit.config(
    "set-cluster",
    name,
    `--server=${options.server}`,
    `--certificate-authority=${await file("ca", options.ca)}`,
    "--embed-certs=true",
  );
  await edit.config(
    "set-credentials",
    name,
    `--client-certificate=${await file("certificate", options.certificate)}`,
    `--client-key=${await file("key", options.key)}`,
    "--embed-certs=true",
  );
  await edit.config("set-context", name, `--cluster=${name}`, `--user=${name}`);
}

async function goBack(
  edit: KubeconfigEdit,
  config: View,
  current: string | undefined,
): Promise<void> {
  if (current !== undefined && has(config.contexts, current))
    await edit.config("use-context", current);
  else await edit.config("unset", "current-context");
}

async function read(edit: KubeconfigEdit): Promise<View> {
  return view(JSON.parse(await edit.config("view", "--raw", "-o", "json")), "");
}

function has(list: View["contexts"], name: string): boolean {
  return list?.some((entry) => entry.name === name) ?? false;
}

function isEmpty(config: View): boolean {
  return [config.contexts, config.clusters, config.users].every((list) => !list?.length);
}

/** Resolves links in the path, for example into a repository of dotfiles. */
async function targetOf({ path, kubectl, statePath }: RemoveContextOptions): Promise<EditTarget> {
  // The state's folder is removed together with the cluster. So a program that is killed leaves no key in a folder for
  // temporary files.
  const scratchDir = dirname(statePath);
  try {
    return { path: await realpath(path), kubectl, scratchDir };
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return { path, kubectl, scratchDir };
    throw error;
  }
}

async function remembered(path: string) {
  const text = await readIfPresent(path);
  return text === undefined ? undefined : memory(JSON.parse(text), "");
}

/** Creates missing directories with the owner of their parent. @returns the created ones, from the innermost */
async function ensureDirectory(directory: string): Promise<readonly string[]> {
  const first = await mkdir(directory, { recursive: true, mode: 0o750 });
  if (first === undefined) return [];
  const { uid, gid } = await stat(dirname(first));
  const made: string[] = [];
  for (let each = resolve(directory); each.startsWith(resolve(first)); each = dirname(each))
    made.push(each);
  for (const each of made) await chown(each, uid, gid);
  return made;
}

async function removeIfEmpty(directory: string): Promise<void> {
  try {
    await rmdir(directory);
  } catch (error) {
    if (!isSystemError(error, "ENOTEMPTY", "ENOENT")) throw error;
  }
}
