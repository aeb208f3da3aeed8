import { createHash } from "node:crypto";
import { link, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, silentLogger, type Logger } from "@kip/base";
import { bundleAgent } from "./agent-bundle.ts";
import { cachedBuild } from "./build-cache.ts";
import { asBuildFailure } from "./build-failure.ts";
import { cpioArchive, type CpioEntry } from "./cpio.ts";
import { requireHostTools } from "./host-tools.ts";
import { buildOperatingSystem, osFiles } from "./operating-system.ts";
import { bootFiles, cmdline, recipe, recipeDirectory } from "./recipe.ts";

/** Options of {@link buildCellImage}. */
export interface BuildCellImageOptions {
  /** Where images and their parts are kept; made when it is missing. */
  readonly cacheDir: string;
  /** The program that starts the agent: `apps/itzo/src/main.ts`. */
  readonly agentEntry: string;
  /** The Node binary put into the image. @default the one that runs this code */
  readonly nodeBinary?: string;
  /** Gets one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: (message: string) => void;
  /** @default silent */
  readonly logger?: Logger;
  /** Stops the build; what is half built is removed. */
  readonly signal?: AbortSignal;
}

/** An image that machines can boot. Its files never change. */
export interface CellImage {
  /** 16 hexadecimal digits, made from everything that went into the image. */
  readonly id: string;
  /** Absolute path of the folder that holds the files below. */
  readonly dir: string;
  /** Absolute path of the kernel, for QEMU's `-kernel`. */
  readonly kernel: string;
  /** Absolute path of the initial file system, for QEMU's `-initrd`. */
  readonly initrd: string;
  /** Absolute path of the root disk: raw, sparse, to be used as a backing file. */
  readonly rootDisk: string;
  /** Logical size of the root disk, bytes. A machine's disk must not be smaller. */
  readonly rootDiskBytes: number;
  /** Kernel command line; the launcher appends its `kip.*` arguments. */
  readonly cmdline: string;
}

const decodeManifest = decode.object({
  schema: decode.integer,
  id: decode.string,
  kernel: decode.string,
  initrd: decode.string,
  rootDisk: decode.string,
  rootDiskBytes: decode.integer,
  cmdline: decode.string,
});

/**
 * Gives the image that cells boot; builds what is missing of it. As root only.
 *
 * Two stages with a cache each: the operating system (most of a minute, rarely), and the agent, which travels in the
 * initramfs (about a second). A step that was interrupted begins anew next time; finished ones are kept.
 *
 * @throws {KipError} `CELL_IMAGE_TOOLS_MISSING` when a program of the host is missing,
 * `CELL_IMAGE_BUILD_FAILED` when a step fails; the signal's reason
 */
export async function buildCellImage(options: BuildCellImageOptions): Promise<CellImage> {
  const { signal, logger = silentLogger, nodeBinary = process.execPath } = options;
  const startedAt = performance.now();
  await requireHostTools(["mmdebstrap", "mke2fs", "dpkg-deb", "apt-get", "unshare", "flock"]);
  return await asBuildFailure("build the cell image", signal, async () => {
    const system = await buildOperatingSystem({ ...options, nodeBinary });
    const agent = cpioArchive(await agentFiles(options.agentEntry));
    const hash = createHash("sha256").update(system.key).update(cmdline).update(agent);
    const id = hash.digest("hex").slice(0, 16);
    const dir = await cachedBuild({
      cacheDir: options.cacheDir,
      kind: "images",
      key: id,
      ...(signal && { signal }),
      build: async (work) => await assemble({ work, id, system: system.directory, agent }),
    });
    const durationMs = Math.round(performance.now() - startedAt);
    logger.info("Cell image ready", { image: id, durationMs });
    return await readCellImage(dir);
  });
}

/** Reads an image's folder. @throws {KipError} `DECODE_FAILED`; `ENOENT` of the file system */
export async function readCellImage(dir: string): Promise<CellImage> {
  const manifest = decodeManifest(
    JSON.parse(await readFile(path.join(dir, "image.json"), "utf8")),
    "image.json",
  );
  return {
    id: manifest.id,
    dir,
    kernel: path.join(dir, manifest.kernel),
    initrd: path.join(dir, manifest.initrd),
    rootDisk: path.join(dir, manifest.rootDisk),
    rootDiskBytes: manifest.rootDiskBytes,
    cmdline: manifest.cmdline,
  };
}

/** The second part of the initramfs: what `init` copies over the root, below `overlay/`. */
async function agentFiles(entry: string): Promise<readonly CpioEntry[]> {
  const files: CpioEntry[] = [
    { path: "overlay/usr/lib/kip/itzo.js", content: await bundleAgent(entry) },
  ];
  for (const [name, target] of Object.entries(bootFiles)) {
    const content = await readFile(path.join(recipeDirectory, name));
    files.push({ path: `overlay/${target}`, content, isExecutable: name.endsWith(".sh") });
  }
  return files;
}

async function assemble(parts: {
  readonly work: string;
  readonly id: string;
  readonly system: string;
  readonly agent: Buffer;
}): Promise<void> {
  const { work, system } = parts;
  // The same file under two names: an image must survive the collection of its operating system.
  await link(path.join(system, osFiles.kernel), path.join(work, "vmlinuz"));
  await link(path.join(system, osFiles.rootDisk), path.join(work, "root.img"));
  await link(path.join(system, osFiles.packages), path.join(work, osFiles.packages));
  const fixed = await readFile(path.join(system, osFiles.initramfs));
  await writeFile(path.join(work, "initrd"), Buffer.concat([fixed, parts.agent]));
  const manifest = {
    schema: 1,
    id: parts.id,
    kernel: "vmlinuz",
    initrd: "initrd",
    rootDisk: "root.img",
    rootDiskBytes: recipe.rootDiskBytes,
    cmdline,
    created: new Date().toISOString(),
  };
  await writeFile(path.join(work, "image.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}
