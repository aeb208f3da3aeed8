import { mkdirSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";
import { startContainerd } from "./containerd.ts";
import type { FreshDisk } from "./fresh-disk.ts";
import type { ImageFormat, MadeImage } from "./image-maker.ts";
import { measured, type Cost } from "./process-cost.ts";

/** A program to measure with an image. */
export interface Contender {
  readonly who: string;
  readonly kind: "ours" | "rival" | "stage";
  /** Does one run on a new disk. */
  readonly run: () => Promise<readonly (readonly [who: string, cost: Cost])[]>;
}

/** What contenders use. */
export interface Arena {
  readonly disk: FreshDisk;
  /** A folder for files that are not measured. */
  readonly work: string;
  /** The packed tosi. */
  readonly tosi: string;
  readonly registry: string;
  readonly image: MadeImage;
  readonly repository: string;
  readonly format: ImageFormat;
  /** How often to pull the image again after each pull. */
  readonly again: number;
}

export const secondPull = "tosi, pulled again";
export const bareNode = "node -e 0";

/** All contenders for one image. Debian's umoci does not support zstd. */
export function contenders(arena: Arena): readonly Contender[] {
  return [
    { who: "tosi", kind: "ours", run: () => runTosi(arena) },
    ...(arena.format === "gzip" ? [{ ...skopeoAndUmoci, run: () => runUmoci(arena) }] : []),
    { who: "containerd", kind: "rival", run: () => runContainerd(arena) },
    stage("curl | sha256sum", () => fetchCommand(arena)),
    stage(`${arena.format} -dc`, () => shell(`${arena.format} -dc ${arena.image.blobs.join(" ")}`)),
    stage("tar -x", () => untarCommand(arena)),
  ];
}

const skopeoAndUmoci = { who: "skopeo + umoci", kind: "rival" } as const;

function stage(
  who: string,
  command: () => readonly string[] | Promise<readonly string[]>,
): Contender {
  return { who, kind: "stage", run: async () => [[who, await measured(await command())]] };
}

function shell(script: string): readonly string[] {
  return ["sh", "-c", script];
}

async function runTosi(arena: Arena): ReturnType<Contender["run"]> {
  const { registry, disk, again } = arena;
  const flags = ["-quiet", "-workdir", path.join(disk.folder, "store"), "-insecure", registry];
  const pull = [arena.tosi, "pull", ...flags, nameOf(arena)];
  const costs: (readonly [string, Cost])[] = [["tosi", await measured(pull)]];
  for (let count = 0; count < again; count++) {
    costs.push([secondPull, await measured(pull)]);
    costs.push([bareNode, await measured([process.execPath, "-e", "0"])]);
  }
  return costs;
}

async function runUmoci(arena: Arena): ReturnType<Contender["run"]> {
  const layout = path.join(arena.disk.folder, "layout");
  const source = `docker://${nameOf(arena)}`;
  const copy = `skopeo copy --quiet --src-tls-verify=false ${source} oci:${layout}:latest`;
  const unpack = `umoci unpack --image ${layout}:latest ${arena.disk.folder}/bundle`;
  return [["skopeo + umoci", await measured(shell(`${copy} && ${unpack}`))]];
}

async function runContainerd(arena: Arena): ReturnType<Contender["run"]> {
  const store = path.join(arena.disk.folder, "store");
  await using daemon = await startContainerd(store, path.join(arena.work, "containerd"));
  const cost = await measured(daemon.pullCommand(`${nameOf(arena)}:latest`), daemon.pid);
  return [["containerd", cost]];
}

function fetchCommand({ image, registry, repository }: Arena): readonly string[] {
  const base = `http://${registry}/v2/${repository}/blobs`;
  const urls = image.blobs.map((blob) => `${base}/sha256:${path.basename(blob)}`);
  return shell(`curl -sS ${urls.join(" ")} | sha256sum`);
}

/** The archives are on the other disk, and in the page cache. */
async function untarCommand({ image, work, format, disk }: Arena): Promise<readonly string[]> {
  const plain = path.join(work, "plain");
  mkdirSync(plain, { recursive: true });
  const archives = image.blobs.map((blob) => path.join(plain, path.basename(blob)));
  for (const [index, blob] of image.blobs.entries()) {
    await runCommand("sh", [
      "-c",
      `[ -f ${archives[index]} ] || ${format} -dc ${blob} > ${archives[index]}`,
    ]);
  }
  return shell(archives.map((file) => `tar -xf ${file} -C ${disk.folder}`).join(" && "));
}

function nameOf({ registry, repository }: Arena): string {
  return `${registry}/${repository}`;
}
