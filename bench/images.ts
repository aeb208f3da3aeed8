// npm run bench:images: pulls of the same images from one registry on the loopback interface: tosi beside
// skopeo with umoci and beside containerd, and the stages that bound every puller, each alone. As root.
// Options: --mib N, size of the two large images (default 1024) · --rounds N (default 3), for the two small images
// twice as many · --images small,layers,files,large · --formats gzip,zstd · --place FOLDER, on the disk to be measured
// (default /var/tmp; 8 times --mib and 4 GiB must be free)
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { parseReference, pushLayout } from "@kip/oci-image";
import { startRegistry } from "../packages/oci-image/test/fixtures/registry-process.ts";
import { packTosi } from "../tools/pack-tosi.ts";
import { bareNode, contenders, secondPull, type Arena, type Contender } from "./contenders.ts";
import { FreshDisk } from "./fresh-disk.ts";
import { makeImage, type ImageFormat, type ImageShape } from "./image-maker.ts";
import { median, rounded, table } from "./measure.ts";
import type { Cost } from "./process-cost.ts";

const { values } = parseArgs({
  options: {
    mib: { type: "string", default: "1024" },
    rounds: { type: "string", default: "3" },
    images: { type: "string", default: "small,layers,files,large" },
    formats: { type: "string", default: "gzip,zstd" },
    place: { type: "string", default: "/var/tmp" },
  },
});
const mib = Number(values.mib);
const rounds = Number(values.rounds);
const shapes: readonly ImageShape[] = [
  { name: "small", layers: 1, files: 40, fileBytes: 100_000 },
  { name: "layers", layers: 20, files: 100, fileBytes: 20_000 },
  { name: "files", layers: 4, files: mib * 16, fileBytes: 16_384 },
  { name: "large", layers: 4, files: 1, fileBytes: mib * 256 * 1024 },
];
/** How often to pull an image again after each pull, when it is already stored. */
const again = 4;

const goalNames = [
  "to fastest rival, goal 1",
  "to slowest stage, goal 1.3",
  "peak MiB, goal 120",
  "second pull ms, goal 50",
  "without bare node",
];

interface Row extends Cost {
  readonly image: string;
  readonly who: string;
  readonly kind?: Contender["kind"];
}

const work = mkdtempSync(path.join(values.place, "kip-bench-images-"));
const rows: Row[] = [];
try {
  const tosi = path.join(work, "tosi");
  await packTosi(tosi, process.execPath);
  await using registry = await startRegistry(path.join(work, "registry"));
  await using disk = new FreshDisk(work, (4 * mib + 1024) * 1024 ** 2);
  for (const format of values.formats.split(",") as ImageFormat[]) {
    for (const shape of shapes.filter(({ name }) => values.images.split(",").includes(name))) {
      const folder = path.join(work, "image");
      mkdirSync(folder);
      const image = await makeImage(path.join(folder, "layout"), shape, format);
      const repository = `${shape.name}-${format}`;
      await pushLayout(image.layout, parseReference(`${registry.host}/${repository}`), {
        registries: [{ host: registry.host, endpoint: `http://${registry.host}` }],
      });
      const place = { disk, work: folder, tosi, registry: registry.host };
      await compare(shape, { ...place, image, repository, format, again });
      rmSync(folder, { recursive: true });
    }
  }
  report();
} finally {
  rmSync(work, { recursive: true, force: true });
}

/** Runs every contender once per round, in alternating order. */
async function compare(shape: ImageShape, arena: Arena): Promise<void> {
  const image = `${shape.name}, ${arena.format}`;
  const everybody = contenders(arena);
  const costs = new Map<string, Cost[]>();
  for (let round = 0; round < rounds * (arena.image.plainBytes < 2 ** 28 ? 2 : 1); round++) {
    for (const contender of round % 2 === 0 ? everybody : everybody.toReversed()) {
      await arena.disk.renew();
      for (const [who, cost] of await contender.run()) {
        costs.set(who, [...(costs.get(who) ?? []), cost]);
      }
    }
  }
  for (const [who, all] of costs) {
    const kind = everybody.find((it) => it.who === who)?.kind;
    const row = { image, who, ...(kind && { kind }), n: all.length, ...middle(all) };
    rows.push(row);
    console.log(JSON.stringify(row));
  }
}

/** The CPU time is the minimum of all runs, because other work on the machine can only add to it. */
function middle(costs: readonly Cost[]): Cost {
  return {
    wallMs: rounded(median(costs.map(({ wallMs }) => wallMs))),
    cpuMs: rounded(Math.min(...costs.map(({ cpuMs }) => cpuMs))),
    peakMiB: rounded(Math.max(...costs.map(({ peakMiB }) => peakMiB))),
  };
}

function report(): void {
  const head = ["image", "who", "wall ms", "CPU ms", "peak MiB", "wall to tosi's"];
  const ours = (image: string): number => find(image, "tosi").wallMs;
  table([
    head,
    ...rows.map(({ image, who, wallMs, cpuMs, peakMiB }) => [
      image,
      who,
      wallMs.toFixed(0),
      cpuMs.toFixed(0),
      peakMiB.toFixed(0),
      (wallMs / ours(image)).toFixed(2),
    ]),
  ]);
  const goals = [...new Set(rows.map(({ image }) => image))].map(goalsOf);
  table([["image", ...goalNames], ...goals]);
}

/** All figures, with "missed" after those that miss their goal. */
function goalsOf(image: string): readonly string[] {
  const ours = find(image, "tosi");
  const of = (kind: Contender["kind"], choose: (...walls: number[]) => number): number =>
    choose(...rows.filter((it) => it.image === image && it.kind === kind).map((it) => it.wallMs));
  const second = find(image, secondPull).wallMs;
  const judged = (value: number, goal: number, digits: number): string =>
    `${value.toFixed(digits)}${value > goal ? " missed" : ""}`;
  return [
    image,
    judged(ours.wallMs / of("rival", Math.min), 1, 2),
    judged(ours.wallMs / of("stage", Math.max), 1.3, 2),
    judged(ours.peakMiB, 120, 0),
    judged(second, 50, 0),
    judged(second - find(image, bareNode).wallMs, 50, 0),
  ];
}

function find(image: string, who: string): Cost {
  const row = rows.find((it) => it.image === image && it.who === who);
  if (!row) throw new Error(`${who} was not measured with ${image}`);
  return row;
}
