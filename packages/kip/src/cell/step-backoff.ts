import type { BackoffOptions } from "@kip/base";
import type { CellStep } from "./cell-step.ts";

/** The steps until the instance has ended. While one is waiting, a machine that no pod needs may cost money. */
const ending: ReadonlySet<CellStep["kind"]> = new Set([
  "observeInstance",
  "recordEnd",
  "drain",
  "saveLogs",
  "terminate",
]);

/**
 * The pauses after a failed step. An instance ends within a minute after the API server or the cloud has come back, however
 * long the outage was.
 */
export function stepBackoff({ kind }: CellStep): BackoffOptions {
  return { initialMs: 500, maxMs: ending.has(kind) ? 30_000 : 300_000 };
}
