import { mkdtemp, readFile, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { cpioArchive, type CpioEntry } from "../cpio.ts";
import { moduleClosure } from "../kernel-modules.ts";
import { recipe } from "../recipe.ts";
import { runContained } from "../run-contained.ts";

/**
 * The additional part of the initial file system for machines in clouds: modules of the image's kernel, and a longer list of
 * modules to load first, which replaces the image's.
 *
 * @param rootDisk an ext4 file system without a partition table
 */
export async function cloudModules(rootDisk: string, signal?: AbortSignal): Promise<Buffer> {
  const debugfs = async (request: string): Promise<string> =>
    await runContained("debugfs", ["-R", request, rootDisk], { hasNetwork: false, signal });
  const folders = await debugfs("ls -p /usr/lib/modules");
  const version = folders
    .split("\n")
    .map((line) => line.split("/")[5] ?? "")
    .find((name) => /^\d/.test(name));
  const folder = `/usr/lib/modules/${version ?? ""}`;
  const modulesDep = await debugfs(`cat ${folder}/modules.dep`);
  const early = moduleClosure(recipe.earlyModules, modulesDep);
  const added = moduleClosure(recipe.cloudModules, modulesDep);
  const names = [...recipe.earlyModules, ...recipe.cloudModules];
  const target = `lib/modules/${version ?? ""}`;
  const lines = [...new Map([...early, ...added]).values()];
  const entries: CpioEntry[] = [
    { path: "early-modules", content: Buffer.from(`${names.join(" ")}\n`) },
    { path: `${target}/modules.dep`, content: Buffer.from(`${lines.join("\n")}\n`) },
  ];
  const work = await mkdtemp(path.join(os.tmpdir(), "kip-modules-"));
  try {
    const copy = path.join(work, "module");
    for (const file of added.keys()) {
      await debugfs(`dump ${folder}/${file} ${copy}`);
      entries.push({ path: `${target}/${file}`, content: await readFile(copy) });
    }
  } finally {
    await rm(work, { recursive: true });
  }
  return cpioArchive(entries);
}
