// npm run test:conformance runs Kubernetes' own conformance specs on the virtual node. --help lists the options.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, freemem, tmpdir } from "node:os";
import path from "node:path";
import { helpText, parseOptions, type Option } from "@kip/base";
import {
  findRelease,
  newest,
  obtainBinaries,
  obtainSpecPrograms,
  ReleaseSites,
  pinned,
  type PinnedRelease,
} from "@kip/control-plane";
import { cluster as numbered } from "../e2e/cluster-number.ts";
import { causes } from "./conformance/causes.ts";
import { LocalCluster, type SpecCluster } from "./conformance/cluster.ts";
import { pushSpecImages } from "./conformance/images/push-images.ts";
import { specImages } from "./conformance/images/spec-images.ts";
import { conformancePage } from "./conformance/page.ts";
import { planRun, type Plan } from "./conformance/plan.ts";
import { addResult, readResults, type Result } from "./conformance/results.ts";
import { listImages, listSpecs, runSpec } from "./conformance/run-spec.ts";
import { runSpecs } from "./conformance/run-specs.ts";

const usage = `Usage: npm run test:conformance -- [options]

Runs Kubernetes' own specs that are in [Conformance] or [NodeConformance], in a local cluster of their own, and writes
docs/conformance.md. A run that was interrupted goes on where it stopped.`;
const table: readonly Option[] = [
  { flag: "focus", type: "list", help: "only specs with this text in their name; may be repeated" },
  {
    flag: "sig",
    type: "list",
    help: "only specs of this SIG, for example network; may be repeated",
  },
  { flag: "count", type: "string", fallback: "1000", help: "run so many specs at most" },
  {
    flag: "workers",
    type: "string",
    help: "specs beside each other; default: as memory and CPUs allow",
  },
  // One spec waits 10 minutes and then three times 5 minutes. It needs 27 minutes.
  { flag: "spec-limit", type: "string", fallback: "40", help: "minutes that one spec may take" },
  { flag: "retry-failed", type: "boolean", help: "run those that failed again" },
  { flag: "fresh", type: "boolean", help: "forget all results" },
  { flag: "list", type: "boolean", help: "print the names of what is to be run, and run nothing" },
  {
    flag: "page",
    type: "boolean",
    help: "write the page of the results there are, and run nothing",
  },
  { flag: "keep", type: "boolean", help: "leave the cluster running; the next run joins it" },
  {
    flag: "kubeconfig",
    type: "string",
    help: "a cluster that runs, instead of one of their own; it must be able to pull the specs' images",
  },
  {
    flag: "kubernetes",
    type: "string",
    env: "KIP_KUBERNETES_VERSION",
    fallback: pinned.kubernetes,
    help: `version of Kubernetes and of its specs: ${pinned.kubernetes}, or newest (${newest.kubernetes}), whose page is docs/conformance-newest.md`,
  },
  {
    flag: "results-dir",
    type: "string",
    help: "results, logs and the cluster; default: a folder of this version below the system's temporary one",
  },
  {
    flag: "cache-dir",
    type: "string",
    env: "KIP_CACHE_DIR",
    fallback: "/var/cache/kip",
    help: "programs and images, kept between runs",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];
/** Memory of a spec's pods and of the processes that serve them, bytes. CPUs: a pod's start takes most of one. */
const bytesPerWorker = 3 * 2 ** 30;
const workersPerCpu = 1.5;

const options = parseOptions(table, process.argv.slice(2), process.env);
const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.once(signal, () => interrupted.abort(new Error(`${signal} received`)));
if (options.isSet("help")) console.log(helpText(usage, table));
else await main();

async function main(): Promise<void> {
  const release = findRelease(options.required("kubernetes"));
  const isPinned = release === pinned;
  const ownFolder = `${numbered.name}-conformance${isPinned ? "" : `-${release.kubernetes}`}`;
  const folder = options.text("results-dir") ?? path.join(tmpdir(), ownFolder);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const resultsFile = path.join(folder, "results.jsonl");
  if (options.isSet("fresh")) rmSync(resultsFile, { force: true });
  const common = { cacheDir: options.required("cache-dir"), onProgress: progress };
  const built = await obtainSpecPrograms({ ...common, release, signal: interrupted.signal });
  const program = path.join(built, "e2e.test");
  const specs = await listSpecs(program, folder);
  const plan = planRun(specs, await readResults(resultsFile), {
    focus: options.list("focus"),
    sigs: options.list("sig"),
    retriesFailed: options.isSet("retry-failed"),
    count: options.integer("count", { min: 1, max: 100_000 }),
  });
  if (options.isSet("list")) {
    for (const { name } of [...plan.parallel, ...plan.serial]) console.log(name);
    return;
  }
  if (!options.isSet("page")) await runPlan(plan, { release, folder, built, resultsFile });
  const results = await readResults(resultsFile);
  const page = conformancePage({ specs, results, causes, kubernetes: release.kubernetes });
  const pageName = isPinned ? "conformance.md" : "conformance-newest.md";
  writeFileSync(path.join(import.meta.dirname, "../docs", pageName), page);
}

interface Places {
  readonly release: PinnedRelease;
  readonly folder: string;
  /** Folder of the programs for the specs. */
  readonly built: string;
  readonly resultsFile: string;
}

async function runPlan(plan: Plan, places: Places): Promise<void> {
  const { release, folder, built, resultsFile } = places;
  const due = plan.parallel.length + plan.serial.length;
  if (due === 0) return;
  const own = new LocalCluster(
    path.join(folder, "cluster"),
    release.kubernetes,
    interrupted.signal,
  );
  const counts = new Map<string, number>();
  try {
    const cluster = await openCluster(own, places);
    const runner = {
      ...cluster,
      program: path.join(built, "e2e.test"),
      logDir: path.join(folder, "logs"),
      limitMs: options.integer("spec-limit", { min: 1, max: 600 }) * 60_000,
    };
    await runSpecs(plan, {
      workers: workers(),
      run: async (spec) => await runSpec(spec, runner, interrupted.signal),
      onResult: async (result, finished) => {
        await addResult(resultsFile, result);
        counts.set(result.outcome, (counts.get(result.outcome) ?? 0) + 1);
        progress(`[${finished}/${plan.finished + due}] ${describe(result)}`);
      },
    });
  } finally {
    if (options.text("kubeconfig") === undefined && !options.isSet("keep")) await own.remove();
  }
  console.log([...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", "));
  if ((counts.get("failed") ?? 0) + (counts.get("timed out") ?? 0) > 0) process.exitCode = 1;
}

/** The cluster that the options name, or a new one with the images for the specs. */
async function openCluster(own: LocalCluster, { release, built }: Places): Promise<SpecCluster> {
  const cacheDir = options.required("cache-dir");
  const binaries = await obtainBinaries({
    cacheDir,
    release,
    onProgress: progress,
    sites: new ReleaseSites({ env: process.env }),
  });
  const kubeconfig = options.text("kubeconfig");
  if (kubeconfig !== undefined) return { kubeconfig, kubectl: binaries.paths.kubectl };
  progress("Starting a local cluster");
  const cluster = await own.start();
  const named = await listImages(path.join(built, "e2e.test"));
  const images = {
    named,
    cacheDir,
    registryPort: own.registryPort,
    programs: { built, controlPlane: binaries.directory },
    onProgress: progress,
    signal: interrupted.signal,
  };
  const content = `${release.kubernetes} ${JSON.stringify([specImages, named])}`;
  await own.fillRegistry(content, async () => await pushSpecImages(images));
  return cluster;
}

function workers(): number {
  if (options.text("workers") !== undefined)
    return options.integer("workers", { min: 1, max: 100 });
  const byMemory = Math.floor(freemem() / bytesPerWorker);
  return Math.max(1, Math.min(byMemory, Math.floor(availableParallelism() * workersPerCpu)));
}

function describe({ name, outcome, seconds, reason }: Result): string {
  return `${outcome} ${seconds} s  ${name}${reason === "" ? "" : `\n      ${reason}`}`;
}

function progress(line: string): void {
  console.log(`${new Date().toTimeString().slice(0, 8)} ${line}`);
}
