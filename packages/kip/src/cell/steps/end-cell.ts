import { AgentError } from "@kip/agent-api";
import { withTimeout, type Clock } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import type { CellChange } from "../../state/cell-change.ts";
import { wasClaimed, type CellState } from "../../state/cell-state.ts";
import type { CellContext } from "../cell-step.ts";
import { reportBootFailure } from "./boot-failure.ts";
import { firstReport } from "./follow-agent.ts";
import { cellOf, required, setTransientStatus, setStatus, type CellTools } from "./step-context.ts";

/**
 * Refusals that do not stop an instance from being ended. The API server may refuse permanently, and the instance would cost
 * money.
 */
const refusals = ["K8S_INVALID", "K8S_FORBIDDEN", "K8S_REQUEST_FAILED"] as const;

/** How long clients may read the last output of a pod before its machine is ended, milliseconds. */
const lastOutputMs = 10_000;
/** How long they have if the pod goes on elsewhere, or its grace period is over, milliseconds. */
const shortOutputMs = 2000;

/** Asks the agent to stop the pod within its grace period. */
export async function drain(
  tools: CellTools,
  context: CellContext,
  graceSeconds: number,
): Promise<CellChange> {
  const { state, change, signal } = context;
  const client = required(state().agent.client, "the agent is not connected");
  // Not urgent for a pod that is being removed: a kip that starts now sees the deletion in the API.
  const set = state().pod.wanted.kind === "remove" ? setTransientStatus : setStatus;
  if (state().cell.status.phase !== "Draining") set(tools, context, { phase: "Draining" });
  change({ kind: "draining" });
  try {
    await client.deletePod(graceSeconds, signal);
  } catch (error) {
    if (!AgentError.is(error, "AGENT_NO_POD")) throw error;
    return { kind: "drained", graceSeconds, isEmpty: true };
  }
  return { kind: "drained", graceSeconds, isEmpty: false };
}

/**
 * Saves the logs of a finished pod before its machine is ended, and lets clients read its last output. The plan aborts this
 * after a time limit, because a cell costs money and should not stay because of its logs.
 *
 * @throws the reason of the plan's abort
 * @throws {AgentError} code `AGENT_UNREACHABLE`: repeat it with another connection
 */
export async function saveLogs(
  { archive, clock, logger }: CellTools,
  context: CellContext,
): Promise<CellChange> {
  const { state, change, signal } = context;
  const { agent, pod, end, podRef } = state();
  const { client } = agent;
  // The logs of a removed pod are deleted with it. A pod that gets another cell has the logs of that one.
  if (pod.wanted.kind === "run" && end.isPodFinished && client) {
    change({ kind: "savingLogs" });
    try {
      const report = agent.report ?? (await firstReport(client, context));
      if (report) await archive.save(podRef.uid, client, report, signal);
    } catch (error) {
      if (signal.aborted || AgentError.is(error, "AGENT_UNREACHABLE")) throw error;
      logger.warn("Could not save the logs of a finished pod", { err: error });
    }
  }
  const limitMs = readersMs(state(), clock.monotonic());
  if (client?.outputRead) await waitForReaders(client.outputRead, { limitMs, clock, signal });
  return { kind: "logsSaved" };
}

/** How long clients have to read the last output, milliseconds. Other pods may wait for the end of one that is removed. */
function readersMs({ pod, end }: CellState, nowMs: number): number {
  const { wanted, removeSince = nowMs } = pod;
  if (wanted.kind === "run") return end.isPodFinished ? lastOutputMs : shortOutputMs;
  const graceLeftMs = removeSince + wanted.graceSeconds * 1000 - nowMs;
  return Math.min(lastOutputMs, Math.max(shortOutputMs, graceLeftMs));
}

/** Waits until clients have read the last output, so that `kubectl attach` and `kubectl logs -f` end as they do on a node that stays. */
async function waitForReaders(
  read: Promise<unknown>,
  limits: { readonly limitMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  try {
    await withTimeout(() => read, limits);
  } catch {
    limits.signal.throwIfAborted(); // otherwise they were too slow
  }
}

/** A machine has ended: a quota may have room again, for launches that are paused and for pods that have no Cell now. */
export function machineEnded({ pace, shortages }: Pick<CellTools, "pace" | "shortages">): void {
  pace.freed();
  shortages.freed();
}

/** Ends the instance. */
export async function terminate(
  tools: CellTools,
  context: CellContext,
): Promise<CellChange | undefined> {
  const { driver } = tools;
  const { state, change, signal } = context;
  const { id } = required(state().machine.instance, "there is no instance");
  // A pod that gets another cell is no longer ready and has no address.
  await reportBootFailure(tools, context);
  await recordEnding(tools, context);
  await driver.terminate(id);
  await driver.waitForTerminated(id, signal);
  machineEnded(tools);
  change({ kind: "terminated" });
  await state().agent.client?.[Symbol.asyncDispose]();
  return undefined;
}

/**
 * Records the end of the cell in the API before the cloud is asked to end the instance. The cloud may end it long after this
 * kip is gone, and another kip must neither give the cell to a pod nor continue its pod there. Requesting the Cell's deletion,
 * which is due anyway, is enough for that. The phase is written later, if the instance takes seconds to end. If the agent of a
 * cell with a pod is unreachable, the phase is written first. From the deletion alone, another kip would ask that agent to stop
 * the pod, and wait for it as long as this one has.
 */
async function recordEnding(
  { store, statuses, logger }: CellTools,
  { state, change }: CellContext,
): Promise<void> {
  const { object, isDeleted, status } = state().cell;
  const isLost = wasClaimed(status) && state().agent.client === undefined;
  if (status.phase !== "Terminating") {
    change({ kind: "cellStatus", status: { phase: "Terminating" } });
    if (object && !isLost) statuses.noteEnd(object, state().cell.status);
  }
  if (!object) return;
  // Also if a user has deleted the Cell, but not if an earlier kip has written its end.
  if (isLost && object.status?.phase !== "Terminating")
    await unlessRefused(logger, "status", async () => {
      await statuses.write(object, state().cell.status);
    });
  if (isDeleted) return;
  await unlessRefused(logger, "deletion", async () => {
    await store.markDeleted(object);
    change({ kind: "cellGone", uid: object.metadata.uid });
  });
}

/** Makes a request, and logs a refusal. @throws its other errors */
async function unlessRefused(
  logger: CellTools["logger"],
  what: "status" | "deletion",
  request: () => Promise<void>,
): Promise<void> {
  try {
    await request();
  } catch (error) {
    if (!K8sError.is(error, ...refusals)) throw error;
    logger.warn(`Ends a cell whose ${what} the API server refuses`, { err: error });
  }
}

/** Deletes the Cell after its instance is gone. A pod that lost its cell gets another one. */
export async function deleteCell(
  tools: CellTools,
  context: CellContext,
  isLost: boolean,
): Promise<CellChange | undefined> {
  const { store, statuses, onEvent, logger } = tools;
  const { state, change } = context;
  const cell = cellOf(context);
  const { name } = cell.metadata;
  const { uid } = state().podRef;
  if (isLost) await reportBootFailure(tools, context);
  statuses.forget(cell);
  await store.remove(cell, { isMarked: state().cell.isDeleted });
  logger.info("Deleted a Cell", { cell: name, podUid: uid });
  const { client } = state().agent;
  change({ kind: "cellDeleted", isLost });
  if (isLost) onEvent(uid, "CellLost", `Cell "${name}" is gone; the pod gets a new one`);
  await client?.[Symbol.asyncDispose]();
  return undefined;
}
