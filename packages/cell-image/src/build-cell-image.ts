import { createHash } from "node:crypto";
import { link, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  type Architecture,
  type Clock,
  hostArchitecture,
  type Logger,
  silentLogger,
  systemClock,
} from "@kip/base";
import { bundleAgent, bundleName, compileBundle } from "./agent-bundle.ts";
import { cachedBuild, imagesKind } from "./build-cache.ts";
import { asBuildFailure } from "./build-failure.ts";
import { readCellImage, writeManifest, type CellImage } from "./cell-image.ts";
import { cpioArchive, type CpioEntry } from "./cpio.ts";
import { requireHostTools } from "./host-tools.ts";
import { fetchNodePackage, nodePackages } from "./node-package.ts";
import { buildOperatingSystem, osFiles } from "./operating-system.ts";
import { bootFiles, cmdline, recipe, recipeDirectory } from "./recipe.ts";

/** Options of {@link buildCellImage}. */
export interface BuildCellImageOptions {
  /** Where images and their parts are kept; made when it is missing. */
  readonly cacheDir: string;
  /** The program that starts the agent: `apps/itzo/src/main.ts`. */
  readonly agentEntry: string;
  /** Processor of the machines. @default that of this computer */
  readonly architecture?: Architecture | undefined;
  /** The Node binary put into the image. @default the one that runs this code; for another processor that of an npm package */
  readonly nodeBinary?: string | undefined;
  /** Builds the operating system again, with the packages that Debian offers now. @default false */
  readonly refresh?: boolean | undefined;
  /** @default the system's */
  readonly clock?: Clock | undefined;
  /** Gets one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** Stops the build; what is half built is removed. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Gives the image that cells boot; builds what is missing of it. As root only.
 *
 * Two stages with a cache each: the operating system (most of a minute, rarely), and the agent, which travels in the
 * initramfs (about a second). An interrupted step begins again next time; finished ones are kept.
 *
 * @throws {CellImageError} `CELL_IMAGE_NOT_ROOT`; `CELL_IMAGE_TOOLS_MISSING` when a program of the host is missing;
 * `CELL_IMAGE_BUILD_FAILED` when a step fails; the signal's reason
 */
export async function buildCellImage(options: BuildCellImageOptions): Promise<CellImage> {
  const { signal, logger = silentLogger, clock = systemClock } = options;
  const { architecture = hostArchitecture } = options;
  const startedAt = clock.monotonic();
  await requireHostTools([
    "mmdebstrap",
    "mke2fs",
    "dpkg-deb",
    "apt-get",
    "setpriv",
    "unshare",
    "flock",
  ]);
  return await asBuildFailure("build the cell image", signal, async () => {
    const nodeBinary = options.nodeBinary ?? (await nodeFor(architecture, options));
    const system = await buildOperatingSystem({ ...options, architecture, nodeBinary });
    const bundle = await bundleAgent(options.agentEntry);
    const files = await bootEntries();
    const hash = createHash("sha256")
      .update(system.key)
      .update(cmdline(architecture))
      .update(bundle);
    const id = hash.update(cpioArchive(files)).digest("hex").slice(0, 16);
    const dir = await cachedBuild({
      cacheDir: options.cacheDir,
      kind: imagesKind,
      key: id,
      signal,
      build: async (work) => {
        // Only the processor that will run it can compile it: elsewhere the first agent of each cell does.
        const code =
          architecture === hostArchitecture
            ? await compileBundle(work, { bundle, nodeBinary, signal })
            : new Map<string, Uint8Array>();
        const agent = [...files, ...agentEntries(bundle, code)];
        await assemble({ work, id, architecture, system: system.directory, agent });
      },
    });
    const durationMs = Math.round(clock.monotonic() - startedAt);
    logger.info("Prepared the cell image", { image: id, durationMs });
    return await readCellImage(dir);
  });
}

async function nodeFor(
  architecture: Architecture,
  options: BuildCellImageOptions,
): Promise<string> {
  if (architecture === hostArchitecture) return process.execPath;
  return path.join(await fetchNodePackage(nodePackages[architecture], options), "bin/node");
}

/** Where the agent is on the cell. */
const agentDirectory = "usr/lib/kip";

/** The scripts of the second part of the initramfs, which `init` copies over the root: all below `overlay/`. */
async function bootEntries(): Promise<readonly CpioEntry[]> {
  const entries: CpioEntry[] = [];
  for (const [name, target] of Object.entries(bootFiles)) {
    const content = await readFile(path.join(recipeDirectory, name));
    entries.push({ path: `overlay/${target}`, content, isExecutable: name.endsWith(".sh") });
  }
  return entries;
}

/** The agent and its compiled code, for the same part. */
function agentEntries(
  bundle: Uint8Array,
  code: ReadonlyMap<string, Uint8Array>,
): readonly CpioEntry[] {
  return [[bundleName, bundle] as const, ...code].map(([name, content]) => ({
    path: `overlay/${agentDirectory}/${name}`,
    content,
  }));
}

async function assemble(parts: {
  readonly work: string;
  readonly id: string;
  readonly architecture: Architecture;
  readonly system: string;
  readonly agent: readonly CpioEntry[];
}): Promise<void> {
  const { work, system, architecture } = parts;
  for (const name of await readdir(work)) await rm(path.join(work, name), { recursive: true });
  // The same file under two names: an image must survive the collection of its operating system.
  for (const name of [osFiles.kernel, osFiles.rootDisk, osFiles.packages])
    await link(path.join(system, name), path.join(work, name));
  const fixed = await readFile(path.join(system, osFiles.initramfs));
  await writeFile(path.join(work, "initrd"), Buffer.concat([fixed, cpioArchive(parts.agent)]));
  await writeManifest(work, {
    id: parts.id,
    architecture,
    kernel: osFiles.kernel,
    initrd: "initrd",
    rootDisk: osFiles.rootDisk,
    rootDiskBytes: recipe.rootDiskBytes,
    cmdline: cmdline(architecture),
    // Of an emulated machine of another processor none has been made.
    template: architecture === hostArchitecture,
  });
}
