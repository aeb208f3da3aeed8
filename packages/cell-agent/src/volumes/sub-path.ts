import fs from "node:fs/promises";
import path from "node:path";
import { isSystemError, namesIn } from "@kip/base";
import type { Mounter } from "./mounter.ts";
import { pinInRoot, pinPath, type PinnedPath } from "./safe-path.ts";

/** Options of {@link bindSubPath} and {@link bindImagePath}. */
interface BindOptions {
  readonly root: string;
  readonly subPath: string;
  /** Where to mount it. Created. */
  readonly target: string;
  readonly mounter: Mounter;
  /** Owner of created folders. @default 0 */
  readonly owner?: number | undefined;
}

/**
 * Bind mounts a path below a volume at a path of ours, for the runtime. Otherwise a container that writes to the volume could
 * replace the path by a link between our check and the runtime's mount.
 *
 * @throws {AgentError} code `AGENT_PATH_UNSAFE`
 */
export async function bindSubPath(options: BindOptions): Promise<void> {
  using pinned = pinPath(options.root, options.subPath, options.owner);
  await bindPinned(pinned, options);
}

/**
 * The same for an image. Nothing is created, and links are resolved like in a root file system.
 *
 * @returns false if the path does not exist
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

/** Unmounts what {@link bindSubPath} has mounted in a folder, and removes the folder. */
export async function unbindSubPaths(directory: string, mounter: Mounter): Promise<void> {
  const targets = (await namesIn(directory)).map((name) => path.join(directory, name));
  if (targets.length > 0) await mounter.unmount(...targets);
  for (const target of targets) {
    // Do not remove anything with its content. If a mount is left, that content belongs to the volume.
    const isDirectory = (await fs.stat(target)).isDirectory();
    await (isDirectory ? fs.rmdir(target) : fs.unlink(target));
  }
  await fs.rmdir(directory).catch((error: unknown) => {
    if (!isSystemError(error, "ENOENT")) throw error;
  });
}
