import { appendFile, readFile } from "node:fs/promises";
import { decode, isSystemError } from "@kip/base";
import type { SpecReport } from "./specs.ts";

/** How a spec ended. `skipped`: it skipped itself, because the cluster lacks a feature. */
export type Outcome = "passed" | "failed" | "timed out" | "skipped";

/** One line of the file of results. */
export interface Result {
  readonly name: string;
  readonly outcome: Outcome;
  readonly seconds: number;
  /** First line of the reason. Empty for a spec that passed. */
  readonly reason: string;
}

const decodeResult = decode.object({
  name: decode.string,
  outcome: decode.oneOf("passed", "failed", "timed out", "skipped"),
  seconds: decode.number,
  reason: decode.string,
});

/**
 * Reads the last result of each spec, by its name. Skips an incomplete line at the end of an interrupted run.
 *
 * @param file results of an earlier run; the result is empty if it is missing
 */
export async function readResults(file: string): Promise<ReadonlyMap<string, Result>> {
  let text = "";
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
  }
  return parseResults(text);
}

/** Parses lines of JSON, see {@link readResults}. */
export function parseResults(text: string): ReadonlyMap<string, Result> {
  const lines = text.split("\n").slice(0, -1);
  return new Map(
    lines.map((line) => {
      const result = decodeResult(JSON.parse(line), "result");
      return [result.name, result];
    }),
  );
}

/** Appends a result to the file. */
export async function addResult(file: string, result: Result): Promise<void> {
  await appendFile(file, `${JSON.stringify(result)}\n`);
}

/**
 * The result of a spec from the reports of its run.
 *
 * @param reports reports of a run that chose this spec; empty if it made none
 */
export function resultOf(name: string, reports: readonly SpecReport[]): Result {
  const own = reports.find((report) => report.name === name);
  const failed = reports.find(({ state }) => state !== "passed" && state !== "skipped");
  if (!own)
    return {
      name,
      outcome: "failed",
      seconds: 0,
      reason: firstLine(failed?.message ?? "it made no report"),
    };
  const seconds = Math.round(own.seconds);
  if (own.state === "passed" && !failed) return { name, outcome: "passed", seconds, reason: "" };
  const outcome =
    own.state === "skipped" ? "skipped" : own.state === "timedout" ? "timed out" : "failed";
  return {
    name,
    outcome,
    seconds,
    reason: firstLine(own.message || (failed?.message ?? own.state)),
  };
}

/** The first line that is not blank, limited to 200 characters. */
export function firstLine(text: string): string {
  const line = text.split("\n").find((each) => /\w/.test(each)) ?? "";
  return line.trim().slice(0, 200);
}
