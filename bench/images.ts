// node bench/images.ts: pulls of the same images from the same loopback registry, tosi beside skopeo with
// umoci and beside containerd, and the stages that nobody can be faster than. As root.
// Options: --mib N, size of the large images (default 200) · --runs N (default 1) · --images a,b · --formats a,b
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runCommand } from "@kip/base";
import { parseReference, pushLayout } from "@kip/oci-image";
import { startRegistry } from "../packages/oci-image/test/fixtures/registry-process.ts";
import { makeImage, type ImageFormat, type ImageShape, type MadeImage } from "./image-maker.ts";
import { median, rounded, table } from "./measure.ts";

const { values } = parseArgs({
  options: {
    mib: { type: "string", default: "200" },
    runs: { type: "string", default: "1" },
    images: { type: "string", default: "small,layers,files,large" },
    formats: { type: "string", default: "gzip,zstd" },
  },
});
const mib = Number(values.mib);
const runs = Number(values.runs);
const shapes: readonly ImageShape[] = [
  { name: "small", layers: 1, files: 40, fileBytes: 100_000 },
  { name: "layers", layers: 20, files: 100, fileBytes: 20_000 },
  { name: "files", layers: 4, files: Math.round((mib * 1024) / 16 / 4), fileBytes: 16_384 },
  { name: "large", layers: 4, files: 1, fileBytes: (mib / 4) * 1024 ** 2 },
];
const root = fileURLToPath(new URL("..", import.meta.url));

/** What a run took. */
interface Cost {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakMiB: number;
}

interface Row {
  readonly image: string;
  readonly who: string;
  readonly costs: readonly Cost[];
}

const work = mkdtempSync(path.join(tmpdir(), "kip-bench-images-"));
const tosi = path.join(work, "tosi.mjs");
const rows: Row[] = [];
try {
  await bundleTosi();
  await using registry = await startRegistry(path.join(work, "registry"));
  await using containerd = await startContainerd();
  for (const format of values.formats.split(",") as ImageFormat[]) {
    for (const shape of shapes.filter(({ name }) => values.images.split(",").includes(name))) {
      const folder = path.join(work, "image");
      const image = await makeImage(folder, shape, format);
      const name = `${registry.host}/${shape.name}-${format}`;
      await pushLayout(folder, parseReference(name), {
        registries: [{ host: registry.host, endpoint: `http://${registry.host}` }],
      });
      await compare(`${shape.name}, ${format}`, format, name, image, containerd);
      rmSync(folder, { recursive: true, force: true });
    }
  }
  report();
} finally {
  rmSync(work, { recursive: true, force: true });
}

/** One file, as on a cell: reading TypeScript would cost time and some 40 MiB that are not the puller's. */
async function bundleTosi(): Promise<void> {
  await runCommand(path.join(root, "node_modules/.bin/esbuild"), [
    path.join(root, "apps/tosi/src/main.ts"),
    "--bundle",
    "--platform=node",
    "--format=esm",
    "--target=node24",
    "--log-level=error",
    `--outfile=${tosi}`,
  ]);
}

async function compare(
  image: string,
  format: ImageFormat,
  name: string,
  made: MadeImage,
  containerd: Containerd | undefined,
): Promise<void> {
  const host = name.slice(0, name.indexOf("/"));
  const store = path.join(work, "store");
  const node = process.execPath;
  // As bin/tosi does it.
  const flags = ["--max-semi-space-size=1", tosi];
  const pull = [node, ...flags, "pull", "-quiet", "-workdir", store, "-insecure", host, name];
  await measure(image, "tosi", pull, { store, isCold: true });
  await measure(image, "tosi, again", pull, { store, isCold: false });
  rmSync(store, { recursive: true, force: true });
  const other = path.join(work, "other");
  const copy = `skopeo copy --quiet --src-tls-verify=false docker://${name} oci:${other}:latest`;
  const unpack = `umoci unpack --image ${other}:latest ${other}/bundle`;
  // Debian's umoci does not know zstd.
  if (format === "gzip" && has("skopeo") && has("umoci")) {
    const both = ["sh", "-c", `${copy} && ${unpack}`];
    await measure(image, "skopeo + umoci", both, { store: other, isCold: true });
    rmSync(other, { recursive: true, force: true });
  }
  if (containerd) await measureContainerd(image, containerd, name);
  await measureLimits(image, format, host, name, made);
}

async function measureLimits(
  image: string,
  format: ImageFormat,
  host: string,
  name: string,
  made: MadeImage,
): Promise<void> {
  const repository = name.slice(host.length + 1);
  const urls = made.blobs.map(
    (it) => `http://${host}/v2/${repository}/blobs/sha256:${path.basename(it)}`,
  );
  const options = { store: path.join(work, "limit"), isCold: true };
  const fetch = `curl -sS ${urls.join(" ")} | sha256sum`;
  await measure(image, "limit: curl | sha256sum", ["sh", "-c", fetch], options);
  const inflate = format === "gzip" ? "gzip" : "zstd";
  await measure(image, `limit: ${inflate} -dc`, [inflate, "-dc", ...made.blobs], {
    ...options,
    output: "ignore",
  });
  const plain = made.blobs.map((_, index) => path.join(work, `plain-${index}`));
  for (const [index, blob] of made.blobs.entries()) {
    await runCommand("sh", ["-c", `${inflate} -dc < ${blob} > ${plain[index]}`]);
  }
  const target = path.join(work, "limit");
  const extract = plain.map((file) => `tar -xf ${file} -C ${target}`).join(" && ");
  const commands = `mkdir ${target} && ${extract}`;
  await measure(image, "limit: tar -x", ["sh", "-c", commands], options);
  for (const file of [...plain, target]) rmSync(file, { recursive: true, force: true });
}

async function measure(
  image: string,
  who: string,
  command: readonly string[],
  options: { readonly store: string; readonly isCold: boolean; readonly output?: "ignore" },
): Promise<void> {
  const costs: Cost[] = [];
  for (let run = 0; run < runs; run++) {
    if (options.isCold) rmSync(options.store, { recursive: true, force: true });
    await runCommand("sync");
    costs.push(await timed(command));
  }
  note({ image, who, costs });
}

/** Wall clock, CPU and the largest process of a command and its children. */
async function timed(command: readonly string[]): Promise<Cost> {
  const facts = path.join(work, "time");
  const start = performance.now();
  const child = spawn("/usr/bin/time", ["-f", "%U %S %M", "-o", facts, ...command], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = (await once(child, "exit")) as [number | null]; // as Node documents it
  const wallMs = performance.now() - start;
  if (code !== 0) throw new Error(`${command.join(" ")}: exit code ${code}`);
  const [user = 0, system = 0, peak = 0] = readFileSync(facts, "utf8").split(" ").map(Number);
  return { wallMs, cpuMs: (user + system) * 1000, peakMiB: peak / 1024 };
}

/** A containerd of our own. */
interface Containerd extends AsyncDisposable {
  readonly address: string;
  readonly child: ChildProcess;
}

async function startContainerd(): Promise<Containerd | undefined> {
  if (!has("containerd") || !has("ctr")) {
    console.log(JSON.stringify({ note: "containerd is not installed and is left out" }));
    return undefined;
  }
  const folder = path.join(work, "containerd");
  mkdirSync(folder);
  const address = path.join(folder, "socket");
  const config = path.join(folder, "config.toml");
  const lines = [
    "version = 2",
    `root = "${folder}/root"`,
    `state = "${folder}/state"`,
    'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
    "[grpc]",
    `address = "${address}"`,
  ];
  writeFileSync(config, lines.join("\n"));
  const child = spawn("containerd", ["--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  await new Promise<void>((resolve, reject) => {
    child.stderr.on("data", (text: Buffer) => {
      if (text.includes("successfully booted")) resolve();
    });
    void exited.then(() => reject(new Error("containerd stopped")));
  });
  return {
    address,
    child,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** Its work is the daemon's: the daemon's CPU, and its peak since it was told to forget the last. */
async function measureContainerd(image: string, daemon: Containerd, name: string): Promise<void> {
  const { address, child } = daemon;
  const ctr = ["ctr", "--address", address, "images"];
  const costs: Cost[] = [];
  for (let run = 0; run < runs; run++) {
    await runCommand("sync");
    writeFileSync(`/proc/${child.pid}/clear_refs`, "5");
    const before = cpuOf(child.pid);
    const cost = await timed([...ctr, "pull", "--plain-http", `${name}:latest`]);
    const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1];
    costs.push({
      wallMs: cost.wallMs,
      cpuMs: cost.cpuMs + cpuOf(child.pid) - before,
      peakMiB: Number(peak) / 1024,
    });
    await runCommand(ctr[0] ?? "", [...ctr.slice(1), "remove", "--sync", `${name}:latest`]);
  }
  note({ image, who: "containerd", costs });
}

/** Milliseconds, in ticks of 10. */
function cpuOf(pid: number | undefined): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function has(program: string): boolean {
  return (process.env["PATH"] ?? "")
    .split(":")
    .some((folder) => existsSync(`${folder}/${program}`));
}

function note(row: Row): void {
  rows.push(row);
  const { image, who } = row;
  console.log(JSON.stringify({ image, who, ...middle(row), n: row.costs.length }));
}

function middle({ costs }: Row): Cost {
  return {
    wallMs: rounded(median(costs.map(({ wallMs }) => wallMs))),
    cpuMs: rounded(median(costs.map(({ cpuMs }) => cpuMs))),
    peakMiB: rounded(median(costs.map(({ peakMiB }) => peakMiB))),
  };
}

function report(): void {
  const slowest = (image: string): number =>
    Math.max(
      ...rows
        .filter((row) => row.image === image && row.who.startsWith("limit"))
        .map((row) => middle(row).wallMs),
    );
  table([
    ["image", "who", "wall ms", "CPU ms", "peak MiB", "x slowest stage"],
    ...rows.map((row) => {
      const { wallMs, cpuMs, peakMiB } = middle(row);
      const ratio = (wallMs / slowest(row.image)).toFixed(2);
      return [row.image, row.who, wallMs.toFixed(0), cpuMs.toFixed(0), peakMiB.toFixed(0), ratio];
    }),
  ]);
}
