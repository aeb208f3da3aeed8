import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isSystemError, OptionError, runCommand } from "@kip/base";
import { mountOverlay, type ImageConfig, type StoredImage } from "@kip/oci-image";
import { ownFolder } from "./settings.ts";

/** Copies an image's files to an empty folder, with owners, modes, times, links, attributes and holes. */
export async function extractTo(
  image: StoredImage,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  wantEmpty("extractto", folder);
  const options = ["--archive", "--reflink=auto", "--no-target-directory", "--"];
  for (const layer of image.layers) {
    await runCommand("cp", [...options, layer, folder], { signal });
  }
}

/** Mounts an image at an empty folder, writable. Changes are stored in folders beside it. */
export async function mountAt(image: StoredImage, folder: string): Promise<void> {
  wantEmpty("mount", folder);
  const rootfs = path.resolve(folder);
  const places = { rootfs, upper: `${rootfs}.upper`, work: `${rootfs}.work` };
  if (statSync(rootfs).dev !== statSync(path.dirname(rootfs)).dev) {
    throw new OptionError("OPTION_INVALID", `Cannot use -mount ${folder}: it is a mount already`);
  }
  // Files in the upper folder appear in the root file system, so the folder must not belong to another user.
  for (const beside of [places.upper, places.work]) ownFolder("mount", beside);
  await mountOverlay(image.layers, places);
}

/** Writes the image configuration with OCI's field names. */
export function saveConfig(config: ImageConfig, file: string): void {
  const keys = (names: readonly string[]): object =>
    Object.fromEntries(names.map((it) => [it, {}]));
  const document = {
    User: config.user,
    ExposedPorts: keys(config.exposedPorts),
    Env: config.env,
    Entrypoint: config.entrypoint,
    Cmd: config.cmd,
    Volumes: keys(config.volumes),
    WorkingDir: config.workingDir,
    Labels: config.labels,
    StopSignal: config.stopSignal,
  };
  writeFileSync(file, `${JSON.stringify(document)}\n`);
}

function wantEmpty(flag: string, folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    if (readdirSync(folder).length === 0) return;
  } catch (error) {
    if (!isSystemError(error, "EEXIST", "ENOTDIR")) throw error;
  }
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use -${flag} ${folder}: it is not an empty folder`,
    {
      remedy: "Name a folder that is empty or does not exist",
    },
  );
}
