import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { CommandError, isSystemError, runCommand } from "@kip/base";
import { resultOf, type Result } from "./results.ts";
import { focusOf, parseReport, parseSpecs, type Spec } from "./specs.ts";

/** How to run specs, and on which cluster. */
export interface SpecRunner {
  /** Path of `e2e.test`. */
  readonly program: string;
  readonly kubeconfig: string;
  readonly kubectl: string;
  /** Folder for the output of each spec. */
  readonly logDir: string;
  /** Time limit for one spec, milliseconds. */
  readonly limitMs: number;
}

/** Time for cleaning up after a spec has exceeded its limit, milliseconds. */
const graceMs = 60_000;

/** Lists the program's specs in the sets. */
export async function listSpecs(program: string, folder: string): Promise<readonly Spec[]> {
  const report = path.join(folder, "specs.json");
  // Without a kubeconfig, the program would look for a cluster before it lists its specs. It never connects to this address.
  await runCommand(program, [
    "--ginkgo.dry-run",
    `--ginkgo.json-report=${report}`,
    "--host=http://127.0.0.1:1",
    "--provider=skeleton",
  ]);
  return parseSpecs(await readFile(report, "utf8"));
}

/**
 * References to all images that the program's specs name, including specs outside of the sets. Sorted, because the program's
 * order varies.
 */
export async function listImages(program: string): Promise<readonly string[]> {
  const { stdout } = await runCommand(program, ["--list-images"]);
  return stdout
    .split("\n")
    .filter((line) => /^[\w.-]+\/\S+:\S+$/.test(line))
    .sort();
}

/** Runs one spec in its own process. Stops it after the time limit. */
export async function runSpec(
  spec: Spec,
  runner: SpecRunner,
  signal: AbortSignal,
): Promise<Result> {
  await mkdir(runner.logDir, { recursive: true });
  const place = path.join(runner.logDir, logName(spec.name));
  const report = `${place}.json`;
  await rm(report, { force: true });
  const log = createWriteStream(`${place}.log`);
  const began = performance.now();
  try {
    await runCommand(runner.program, specArguments(spec, runner, report), {
      signal,
      timeoutMs: runner.limitMs + graceMs,
      onOutput: (text) => log.write(text),
    });
  } catch (error) {
    signal.throwIfAborted();
    // The program exits with an error after a failed spec. The report has the reason.
    if (!CommandError.is(error, "COMMAND_FAILED")) throw error;
  } finally {
    log.end();
  }
  const result = resultOf(spec.name, parseReport(await readOr(report, "[]")));
  return { ...result, seconds: Math.round((performance.now() - began) / 1000) };
}

function specArguments(spec: Spec, runner: SpecRunner, report: string): readonly string[] {
  return [
    `--ginkgo.focus=${focusOf(spec.name)}`,
    `--ginkgo.json-report=${report}`,
    `--ginkgo.timeout=${Math.round(runner.limitMs / 1000)}s`,
    "--ginkgo.no-color",
    "--ginkgo.v",
    `--kubeconfig=${runner.kubeconfig}`,
    `--kubectl-path=${runner.kubectl}`,
    "--provider=skeleton",
    "--disable-log-dump",
  ];
}

/** A file name that identifies the spec. */
function logName(name: string): string {
  const words = name.replace(/[^A-Za-z0-9]+/g, "-").slice(0, 100);
  return `${words}-${createHash("sha256").update(name).digest("hex").slice(0, 8)}`;
}

async function readOr(file: string, other: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return other;
    throw error;
  }
}
