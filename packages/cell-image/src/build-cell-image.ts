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
  /** Folder for images and their parts. Created if it is missing. */
  readonly cacheDir: string;
  /** The agent's entry point: `apps/itzo/src/main.ts`. */
  readonly agentEntry: string;
  /** Processor of the machines. @default this computer's */
  readonly architecture?: Architecture | undefined;
  /** Node binary for the image. @default the one running this code; for another architecture, that of an npm package */
  readonly nodeBinary?: string | undefined;
  /** Whether to rebuild the operating system with the packages that Debian offers now. @default false */
  readonly refresh?: boolean | undefined;
  /** @default the system's */
  readonly clock?: Clock | undefined;
  /** Called with one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: ((message: string) => void) | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** Stops the build. Incomplete parts are removed. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Returns the image that cells boot, after building what is missing. Only for root.
 *
 * There are two stages, each with a cache: the operating system, which takes most of a minute and changes rarely, and the
 * agent, which is in the initramfs and takes about a second. An interrupted stage starts again next time. Finished ones are
 * kept.
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
        // Only the same architecture can compile the code. On another one, the first agent of each cell compiles it.
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

/** The agent's folder on the cell. */
const agentDirectory = "usr/lib/kip";

/** The scripts in the second part of the initramfs. `init` copies everything below `overlay/` over the root. */
async function bootEntries(): Promise<readonly CpioEntry[]> {
  const entries: CpioEntry[] = [];
  for (const [name, target] of Object.entries(bootFiles)) {
    const content = await readFile(path.join(recipeDirectory, name));
    entries.push({ path: `overlay/${target}`, content, isExecutable: name.endsWith(".sh") });
  }
  return entries;
}

/** The agent and its compiled code, for the second part of the initramfs. */
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
  // Hard links: an image must survive the removal of its operating system from the cache.
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
    // Templates are not supported for emulated machines of another architecture.
    template: architecture === hostArchitecture,
  });
}
