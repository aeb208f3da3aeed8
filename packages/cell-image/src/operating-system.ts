import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import {
  copyFile,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { type Architecture, hostArchitecture, systemClock } from "@kip/base";
import type { BuildCellImageOptions } from "./build-cell-image.ts";
import { cpioArchive, type CpioEntry } from "./cpio.ts";
import { moduleClosure } from "./kernel-modules.ts";
import { runMmdebstrap } from "./mmdebstrap.ts";
import { kernelPackage, recipe, recipeDirectory } from "./recipe.ts";
import { runContained } from "./run-contained.ts";
import { updatableBuild } from "./updatable-build.ts";

/** Names of the files in the folder that {@link buildOperatingSystem} returns. */
export const osFiles = {
  kernel: "vmlinuz",
  /** First part of the initramfs: busybox, kernel modules, `init`. */
  initramfs: "initramfs.cpio",
  rootDisk: "root.img",
  /** Name and version of each package, one per line. */
  packages: "packages.txt",
} as const;

const dayMs = 24 * 3600 * 1000;
/** From this age on, each use of the operating system reports its age. */
const oldDays = 14;

/** Options of {@link buildOperatingSystem}. */
interface BuildOperatingSystemOptions extends BuildCellImageOptions {
  readonly architecture: Architecture;
  readonly nodeBinary: string;
}

/**
 * Returns kernel, root disk and the fixed part of the initramfs, which is everything except the agent. Takes most of a minute
 * the first time. The result depends on the recipe, the Node binary, and the packages that Debian offered when it was built.
 */
export async function buildOperatingSystem(
  options: BuildOperatingSystemOptions,
): Promise<{ readonly directory: string; readonly key: string }> {
  const { architecture } = options;
  const hash = createHash("sha256").update(JSON.stringify([recipe, architecture]));
  for (const name of ["kernel-hook.sh", "init.sh", ...foreignHooks(architecture)])
    hash.update(await readFile(path.join(recipeDirectory, name)));
  await pipeline(createReadStream(options.nodeBinary), hash);
  const { clock = systemClock } = options;
  const { directory, key, currentAt } = await updatableBuild({
    cacheDir: options.cacheDir,
    kind: "os",
    key: hash.digest("hex").slice(0, 16),
    refresh: options.refresh ?? false,
    contentFile: osFiles.packages,
    clock,
    onWait: () => options.onProgress?.("Waiting for another build of the cell image"),
    signal: options.signal,
    build: async (work) => await build(work, options),
  });
  const days = Math.floor((clock.now() - currentAt) / dayMs);
  if (days >= oldDays)
    options.onProgress?.(
      `The cells' operating system is ${days} days old; kip up --refresh-image takes Debian's security updates`,
    );
  return { directory, key };
}

async function build(work: string, options: BuildOperatingSystemOptions): Promise<void> {
  const root = path.join(work, "root");
  const { architecture } = options;
  const kind = architecture === hostArchitecture ? "" : ` with ${architecture}`;
  options.onProgress?.(`Installing Debian ${recipe.suite} for the cells${kind} (about 30 s)`);
  await installPackages(root, architecture, options.signal);
  await writeFile(path.join(work, osFiles.packages), await listPackages(root, options.signal));
  await rename(path.join(root, "kernel", "vmlinuz"), path.join(work, osFiles.kernel));
  await rm(path.join(root, "kernel"), { recursive: true });
  const init = await readFile(path.join(recipeDirectory, "init.sh"));
  await writeFile(path.join(work, osFiles.initramfs), cpioArchive(await initramfs(root, init)));
  options.onProgress?.("Writing the root disk of the cells");
  await finishRoot(root, options.nodeBinary);
  await makeDisk(root, path.join(work, osFiles.rootDisk), options.signal);
  await rm(root, { recursive: true });
}

/** Hooks for an image of another architecture than this computer's. */
function foreignHooks(architecture: Architecture): readonly string[] {
  return architecture === hostArchitecture ? [] : ["architecture-hook.sh"];
}

async function installPackages(
  root: string,
  architecture: Architecture,
  signal: AbortSignal | undefined,
): Promise<void> {
  const hook = (name: string, ...args: readonly string[]): string => {
    const file = shellQuoted(path.join(recipeDirectory, name));
    return `--customize-hook=sh ${file} "$1" ${args.map(shellQuoted).join(" ")}`;
  };
  const foreign = foreignHooks(architecture);
  const { excludedPaths } = recipe;
  await runMmdebstrap({
    root,
    arguments: [
      "--variant=minbase",
      `--include=${recipe.packages.join(",")}`,
      ...(foreign.length > 0 ? [`--architectures=${hostArchitecture},${architecture}`] : []),
      ...excludedPaths.map((pattern) => `--dpkgopt=path-exclude=${pattern}`),
      hook("kernel-hook.sh", kernelPackage(architecture)),
      ...foreign.map((name) => hook(name, architecture, ...excludedPaths)),
    ],
    signal,
  });
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

async function listPackages(root: string, signal: AbortSignal | undefined): Promise<string> {
  const format = "${Package} ${Version}\n";
  const database = path.join(root, "var/lib/dpkg");
  return await runContained("dpkg-query", ["--admindir", database, "-W", "-f", format], { signal });
}

async function initramfs(root: string, init: Buffer): Promise<readonly CpioEntry[]> {
  const [version = ""] = await readdir(path.join(root, "usr/lib/modules"));
  const folder = path.join(root, "usr/lib/modules", version);
  const modulesDep = await readFile(path.join(folder, "modules.dep"), "utf8");
  const closure = moduleClosure(recipe.earlyModules, modulesDep);
  const target = `lib/modules/${version}`;
  const modules: CpioEntry[] = [];
  for (const file of closure.keys())
    modules.push({ path: `${target}/${file}`, content: await readFile(path.join(folder, file)) });
  const busybox = await readFile(path.join(root, "bin/busybox"));
  return [
    { path: "init", content: init, isExecutable: true },
    { path: "bin/busybox", content: busybox, isExecutable: true },
    ...["dev", "proc", "sys", "root", "overlay"].map((name) => ({ path: name })),
    { path: "early-modules", content: Buffer.from(`${recipe.earlyModules.join(" ")}\n`) },
    {
      path: `${target}/modules.dep`,
      content: Buffer.from(`${[...closure.values()].join("\n")}\n`),
    },
    ...modules,
  ];
}

/** Adds what the packages do not provide. */
async function finishRoot(root: string, nodeBinary: string): Promise<void> {
  const folder = path.join(root, "usr/lib/kip");
  await mkdir(folder);
  await copyFile(nodeBinary, path.join(folder, "node"));
  await writeFile(path.join(folder, "root-sectors"), `${recipe.rootDiskBytes / 512}\n`);
  await rm(path.join(root, "usr/sbin/init"), { force: true });
  await symlink("/bin/busybox", path.join(root, "usr/sbin/init"));
  await symlink("/bin/busybox", path.join(root, "usr/sbin/udhcpc"));
  for (const name of ["etc/hostname", "etc/resolv.conf", "etc/machine-id"])
    await rm(path.join(root, name), { force: true });
  await writeFile(path.join(root, "etc/hostname"), "cell\n");
  await writeFile(path.join(root, "etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n");
  await mkdir(path.join(root, "var/lib/itzo"), { recursive: true, mode: 0o700 });
}

/** `mke2fs -d` fills the file system without mounting it. */
async function makeDisk(
  root: string,
  file: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const extended = "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0";
  const blocks = `${recipe.rootDiskBytes / 1024}k`;
  const kind = ["-q", "-F", "-t", "ext4", "-m", "0", "-L", "kip-root", "-E", extended];
  await runContained("mke2fs", [...kind, "-d", root, file, blocks], { signal });
}
