import fs from "node:fs/promises";
import path from "node:path";
import { isSystemError, namesIn } from "@kip/base";
import type { Mounter } from "./mounter.ts";
import { pinInRoot, pinPath, type PinnedPath } from "./safe-path.ts";

/** Options of {@link bindSubPath} and {@link bindImagePath}. */
interface BindOptions {
  readonly root: string;
  readonly subPath: string;
  /** Where to show it; made. */
  readonly target: string;
  readonly mounter: Mounter;
  /** Owns directories that are made. @default 0 */
  readonly owner?: number | undefined;
}

/**
 * Shows a path below a volume at a place of ours. The runtime is given that place: between our look
 * at the path and its mount, a container that writes to the volume could exchange it for a link.
 *
 * @throws {AgentError} code `AGENT_PATH_UNSAFE`
 */
export async function bindSubPath(options: BindOptions): Promise<void> {
  using pinned = pinPath(options.root, options.subPath, options.owner);
  await bindPinned(pinned, options);
}

/**
 * The same of an image, where nothing is made, and links are looked up as in a root file system.
 *
 * @returns false if there is no such path
 */
export async function bindImagePath(options: BindOptions): Promise<boolean> {
  using pinned = pinInRoot(options.root, options.subPath);
  if (!pinned) return false;
  await bindPinned(pinned, options);
  return true;
}

async function bindPinned(
  pinned: PinnedPath,
  { target, mounter }: Pick<BindOptions, "target" | "mounter">,
): Promise<void> {
  if (pinned.isDirectory) await fs.mkdir(target, { recursive: true });
  else {
    await fs.mkdir(path.dirname(target), { recursive: true });
    await fs.writeFile(target, "");
  }
  await mounter.bind(pinned.path, target);
}

/** Takes away what {@link bindSubPath} has shown in a directory, and the directory. */
export async function unbindSubPaths(directory: string, mounter: Mounter): Promise<void> {
  for (const name of await namesIn(directory)) {
    const target = path.join(directory, name);
    await mounter.unmount(target);
    // Nothing here is removed with its content: should a mount be left, that is the volume's.
    const isDirectory = (await fs.stat(target)).isDirectory();
    await (isDirectory ? fs.rmdir(target) : fs.unlink(target));
  }
  await fs.rmdir(directory).catch((error: unknown) => {
    if (!isSystemError(error, "ENOENT")) throw error;
  });
}
