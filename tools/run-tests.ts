// Runs one stage of the tests with node:test and prints one closing line: N passed, N failed, N skipped.
//   node tools/run-tests.ts unit|integration|e2e|acceptance|matrix|arm64|all [file ...]
// "acceptance" runs the tests that the acceptance list of the virtual kubelet names; its table is made
// of them, and of unit and integration tests together. "matrix" runs the virtual kubelet's integration tests
// against the newest stable Kubernetes, or the one that KIP_KUBERNETES_VERSION names. "arm64" boots machines with arm64, which
// are emulated on a computer with another processor.
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import path from "node:path";
import { run } from "node:test";
import { spec, type TestEvent } from "node:test/reporters";
import { PassThrough } from "node:stream";
import { findRelease, obtainBinaries, ReleaseSites } from "@kip/control-plane";
import { endSharedControlPlane, obtainHelm, openTestRun } from "@kip/control-plane/testing";
import { isWholeRun } from "@kip/testing";
import { removeCluster } from "../e2e/cluster.ts";
import { endLeftProcesses, testRunVariable } from "./left-processes.ts";
import { closeAcceptance, isAcceptanceFile } from "./acceptance.ts";
import {
  counted,
  filesToRunAgain,
  linesOf,
  outcomeOf,
  withSecondRun,
  type Outcome,
} from "./outcomes.ts";

const patterns: Record<string, readonly string[]> = {
  unit: [
    "packages/*/src/**/*.test.ts",
    "apps/*/src/**/*.test.ts",
    "tools/**/*.test.ts",
    "e2e/programs/*.test.ts",
  ],
  integration: ["packages/*/test/**/*.int.test.ts", "apps/*/test/**/*.int.test.ts"],
  e2e: ["e2e/*.test.ts"],
  arm64: ["packages/*/test/*.arm64.test.ts", "apps/*/test/*.arm64.test.ts"],
  matrix: [
    "packages/virtual-kubelet/test/*.int.test.ts",
    "apps/virtual-kubelet/test/*.int.test.ts",
  ],
};
patterns["acceptance"] = [...(patterns["unit"] ?? []), ...(patterns["integration"] ?? [])];

const usualLimitMs = 180_000;
/** Slow tests have their own time limits. */
const longLimitMs = 3_600_000;
const fileLimitsMs: Readonly<Record<string, number>> = {
  e2e: isWholeRun ? longLimitMs : 1_200_000,
  integration: isWholeRun ? longLimitMs : usualLimitMs,
  arm64: longLimitMs,
};
/** Stages whose files share one cluster, or two cores with emulated machines. These run one file at a time. */
const stagesInTurn = new Set(["e2e", "arm64"]);

const root = path.join(import.meta.dirname, "..");
const kip = path.join(root, "apps/kip/bin/kip");
const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const [stage = "all", ...chosen] = process.argv.slice(2);
const stages = stage === "all" ? ["unit", "integration", "e2e"] : [stage];
const outcomes: Outcome[] = [];
const lines: string[] = [];
const controlPlaneDir = mkdtempSync(path.join(tmpdir(), "kip-tests-"));
process.env["KIP_TEST_CONTROL_PLANE"] = controlPlaneDir;
process.env[testRunVariable] = controlPlaneDir;
const interrupted = new AbortController();
let interruptedBy: "SIGINT" | "SIGTERM" | "SIGHUP" | undefined;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.once(signal, () => {
    interruptedBy = signal;
    interrupted.abort(new Error(`${signal} received`));
  });
const testRun = await openTestRun(controlPlaneDir);
try {
  // Left by an earlier run that was killed.
  if (stages.includes("e2e")) removeCluster();
  if (stages.includes("matrix")) await prepareMatrix();
  else if (stages.some((name) => name !== "unit" && name !== "arm64")) await prepare();
  for (const name of stages) {
    if (interrupted.signal.aborted) break;
    // The end-to-end tests start their own, and check what runs on this machine.
    if (name === "e2e") {
      await endSharedControlPlane(controlPlaneDir);
      endLeft();
    }
    await runStage(name);
  }
} finally {
  await endSharedControlPlane(controlPlaneDir);
  await testRun[Symbol.asyncDispose]();
  if (stages.includes("e2e")) removeCluster();
  endLeft();
  rmSync(controlPlaneDir, { recursive: true, force: true, maxRetries: 5 });
}
for (const line of lines) console.log(line);
const isWhole =
  chosen.length === 0 &&
  (stages.includes("acceptance") || (stages.includes("unit") && stages.includes("integration")));
const isAccepted = !isWhole || closeAcceptance(outcomes);
const [passed, failed, skipped] = (["passed", "failed", "skipped"] as const).map(
  (result) => counted(outcomes, result).length,
);
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed !== 0 || passed === 0 || !isAccepted ? 1 : 0;
// The exit code of a shell.
if (interruptedBy !== undefined) process.exitCode = 128 + constants.signals[interruptedBy];

/** Ends processes that a test left behind because of its time limit. */
function endLeft(): void {
  for (const line of endLeftProcesses(controlPlaneDir)) console.log(`left behind, ended: ${line}`);
}

/** Prepares programs and images before the first test, so that no test has to wait for them. */
async function prepare(): Promise<void> {
  const { status } = spawnSync(kip, ["up", "--prepare"], { stdio: "inherit" });
  if (status !== 0)
    throw new Error("The binaries and images that the tests need could not be made");
  await obtainHelm({ cacheDir, onProgress: (line) => console.log(line) });
}

/**
 * Prepares the matrix' Kubernetes version. It is downloaded or built on first use. The build takes some ten minutes on two
 * cores.
 */
async function prepareMatrix(): Promise<void> {
  const version = (process.env["KIP_KUBERNETES_VERSION"] ??= "newest");
  const release = findRelease(version);
  await obtainBinaries({
    cacheDir,
    release,
    sites: new ReleaseSites({ env: process.env }),
    onProgress: (line) => console.log(line),
  });
  console.log(`── Kubernetes ${release.kubernetes}, etcd ${release.etcd}`);
}

async function runStage(name: string): Promise<void> {
  const found = patterns[name];
  if (!found)
    throw new RangeError(`Unknown stage "${name}": use ${Object.keys(patterns).join(", ")} or all`);
  const all = globSync([...found]).sort();
  const listed = name === "acceptance" ? all.filter(isAcceptanceFile) : all;
  const files = chosen.length > 0 ? chosen : listed;
  if (files.length === 0) return;
  console.log(`── ${name}: ${files.length} files`);
  const first = await runFiles(name, files);
  const again = interrupted.signal.aborted ? [] : filesToRunAgain(first);
  if (again.length > 0) {
    console.log(`── ${name}: ${again.length} files once more, as a test of theirs failed`);
    if (name === "e2e") removeCluster();
  }
  const last = again.length === 0 ? first : withSecondRun(first, await runFiles(name, again));
  outcomes.push(...last);
  lines.push(...linesOf(first, last, root));
}

/** Runs the files, prints their output, and returns the outcome of each test. */
async function runFiles(stageName: string, files: readonly string[]): Promise<readonly Outcome[]> {
  const found: Outcome[] = [];
  const stream = run({
    files,
    concurrency: stagesInTurn.has(stageName) ? 1 : 2,
    signal: interrupted.signal,
    timeout: fileLimitsMs[stageName] ?? usualLimitMs,
    execArgv: ["--import", path.join(import.meta.dirname, "end-of-file.ts")],
  });
  const take = (event: TestEvent): void => {
    const outcome = outcomeOf(event);
    if (outcome) found.push(outcome);
  };
  stream.on("test:pass", (data) => take({ type: "test:pass", data }));
  stream.on("test:fail", (data) => take({ type: "test:fail", data }));
  const output = stream.compose(spec).pipe(new PassThrough());
  for await (const chunk of output) process.stdout.write(chunk as Buffer);
  return found;
}
