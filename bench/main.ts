// npm run bench: figures of the local cloud, one JSON line each and a table at the end.
// Options: --runs N, starts of each kind (default 5) · --cells N, cells whose memory is compared (default 10)
import { parseArgs } from "node:util";
import type { ApiClient } from "@kip/k8s-client";
import { startPhases } from "@kip/kip";
import { agentFigures } from "./agent.ts";
import { bareBoot } from "./bare-boot.ts";
import { lifeFigures } from "./life.ts";
import {
  clusterFlags,
  folder,
  kipCommand,
  machineProcesses,
  providerProcess,
  removeCluster,
  upFlags,
  useCluster,
} from "./local-cluster.ts";
import {
  figure,
  median,
  percentile,
  proportionalMiB,
  residentMiB,
  rounded,
  table,
} from "./measure.ts";
import { deletePod, startPod, type PodStart } from "./pods.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    cells: { type: "string", default: "10" },
  },
});
const runs = Number(values.runs);
const cells = Number(values.cells);
const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";

/** The results of starts of one kind. */
interface Kind {
  readonly name: string;
  readonly answers: readonly number[];
  readonly ready: readonly number[];
  /** MiB, for all cells that ran at the same time. */
  readonly memory?: number;
}

try {
  const bare: number[] = [];
  const cold = await withCluster("--templates=false", async (client) => {
    await using machine = await bareBoot(cacheDir, folder);
    return await starts("cold cell", client, async () => {
      bare.push(await machine.boot("local.small"));
    });
  });
  const cloned = await withCluster("--templates=true", async (client) => {
    await untilTemplate(client);
    const kind = await starts("cloned cell", client, async () => {});
    await lifeFigures(client);
    return kind;
  });
  report({ name: "bare boot", answers: bare, ready: [] }, cold, cloned);
} finally {
  await removeCluster();
}

async function withCluster<T>(flag: string, work: (client: ApiClient) => Promise<T>): Promise<T> {
  await kipCommand("up", ...upFlags, flag);
  await kipCommand("down", ...clusterFlags);
  const began = performance.now();
  const up = await kipCommand("up", ...upFlags, flag);
  if (up.status !== 0) throw new Error(up.stderr);
  figure(`kip up ${flag}, everything cached, to node Ready`, [performance.now() - began], "ms");
  return await useCluster(work);
}

/** Starts cells one after the other, and then many that keep running. */
async function starts(name: string, client: ApiClient, before: () => Promise<void>): Promise<Kind> {
  const pods: PodStart[] = [];
  for (let run = 0; run < runs; run++) {
    await before();
    const pod = await startPod(client, `pod-${run}`);
    pods.push(pod);
    if (run === runs - 1) await agentFigures(client, pod.cell);
    await deletePod(client, pod);
  }
  const answers = pods.map(({ answerMs }) => answerMs);
  const ready = pods.map(({ readyMs }) => readyMs);
  figure(`${name}, create to the agent's first answer`, answers, "ms");
  figure(`${name}, create to pod Ready`, ready, "ms");
  for (const phase of startPhases) {
    const times = pods.map(({ cell }) => cell.status?.startMs?.[phase] ?? Number.NaN);
    figure(`${name}, phase ${phase}`, times, "ms");
  }
  const staying: PodStart[] = [];
  for (let count = 0; count < cells; count++)
    staying.push(await startPod(client, `staying-${count}`));
  const memory = machineProcesses().map(proportionalMiB);
  figure(`${name}, proportional memory of each of ${cells}`, memory, "MiB");
  figure("kip resident memory", [residentMiB(providerProcess())], "MiB");
  for (const pod of staying) await deletePod(client, pod);
  return { name, answers, ready, memory: memory.reduce((sum, value) => sum + value, 0) };
}

/**
 * Starts cells until one comes from a template that has the image. After the first cell, a template is created in the
 * background. After the next one with the same image, one with that image is created.
 */
async function untilTemplate(client: ApiClient): Promise<void> {
  const withoutImage: PodStart[] = [];
  for (let count = 0; count < 20; count++) {
    const pod = await startPod(client, `first-${count}`);
    await deletePod(client, pod);
    if (pod.cell.status?.startedFrom === "template") withoutImage.push(pod);
    if (pod.cell.status?.startedFrom !== "image-template") continue;
    const ready = withoutImage.map(({ readyMs }) => readyMs);
    figure("cloned cell without the image, create to pod Ready", ready, "ms");
    return;
  }
  throw new Error("No template was made");
}

function report(bare: Kind, cold: Kind, cloned: Kind): void {
  const show = (times: readonly number[]): readonly string[] =>
    times.length === 0
      ? ["", ""]
      : [percentile(times, 0.5), percentile(times, 0.99)].map((ms) => (ms / 1000).toFixed(2));
  table([
    ["seconds", "answer p50", "answer p99", "Ready p50", "Ready p99", `PSS of ${cells}, MiB`],
    ...[bare, cold, cloned].map(({ name, answers, ready, memory }) => [
      name,
      ...show(answers),
      ...show(ready),
      memory === undefined ? "" : memory.toFixed(0),
    ]),
  ]);
  const ratio = (a: number, b: number): number => rounded(a / b);
  console.log(
    JSON.stringify({
      ratios: {
        coldAnswerToBareBoot: ratio(median(cold.answers), median(bare.answers)),
        coldReadyToBareBoot: ratio(median(cold.ready), median(bare.answers)),
        clonedToColdAnswer: ratio(median(cloned.answers), median(cold.answers)),
        clonedToColdReady: ratio(median(cloned.ready), median(cold.ready)),
        clonedToColdMemory: ratio(cloned.memory ?? Number.NaN, cold.memory ?? Number.NaN),
      },
    }),
  );
}
