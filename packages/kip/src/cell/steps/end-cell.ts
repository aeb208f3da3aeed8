import { hasCode } from "@kip/base";
import type { AgentClient, PodReport } from "@kip/agent-api";
import { restartPolicy } from "../../dispatch/desired-pod.ts";
import type { CellActor } from "../cell-actor.ts";
import { forgetCell, wasClaimed, type CellMemory } from "../cell-memory.ts";
import { required, type StepContext } from "./step-context.ts";

/** Limit for saving the logs of a finished pod, milliseconds. */
const saveLogsMs = 120_000;

/** Has the agent stop the pod within its grace period. */
export async function drain(
  context: StepContext,
  memory: CellMemory,
  graceSeconds: number,
  signal: AbortSignal,
): Promise<void> {
  const agent = required(memory.agent, "the agent is not connected");
  if (memory.status.phase !== "Draining") context.setStatus(memory, { phase: "Draining" });
  try {
    await agent.deletePod(graceSeconds, signal);
  } catch (error) {
    if (!hasCode(error, "AGENT_NO_POD")) throw error;
    memory.isAgentEmpty = true;
  }
  memory.drainSent = graceSeconds;
}

/** Keeps the logs of a pod that has finished, whose machine is about to go. */
export async function saveLogs(
  context: StepContext,
  memory: CellMemory,
  signal: AbortSignal,
): Promise<void> {
  const { agent } = memory;
  // After a removal the pod's object goes at once, and its logs with it; a pod that gets another
  // cell goes on with the logs of that one.
  if (memory.wanted.kind === "run" && memory.isPodFinished && agent) {
    const timeLimit = AbortSignal.timeout(saveLogsMs);
    const either = AbortSignal.any([signal, timeLimit]);
    try {
      const report = memory.report ?? (await firstReport(agent, either));
      if (report) await context.options.archive.save(memory.podRef.uid, agent, report, either);
    } catch (error) {
      // A cell that does not hand out its logs is not kept, and paid for, because of them.
      if (signal.aborted || !timeLimit.aborted) throw error;
      context.options.logger.warn("Logs of a finished pod could not be saved in time");
    }
  }
  memory.areLogsSaved = true;
}

/** Ends the instance. */
export async function terminate(
  context: StepContext,
  memory: CellMemory,
  signal: AbortSignal,
): Promise<void> {
  const { driver } = context.options;
  const id = required(memory.instance, "there is no instance").id;
  if (memory.status.phase !== "Terminating") context.setStatus(memory, { phase: "Terminating" });
  await driver.terminate(id);
  await driver.waitForTerminated(id, signal);
  memory.instanceState = "gone";
  await memory.agent?.[Symbol.asyncDispose]();
}

/** Deletes the Cell, whose instance is gone; a pod that lost its cell may get another one. */
export async function deleteCell(
  context: StepContext,
  actor: CellActor,
  isLost: boolean,
): Promise<void> {
  const { memory } = actor;
  const { store, onEvent, logger } = context.options;
  const cell = required(memory.cell, "there is no cell");
  await store.remove(cell);
  logger.info("Cell was deleted", { cell: cell.metadata.name, podUid: memory.podRef.uid });
  const { agent } = memory;
  if (!isLost) {
    forgetCell(memory);
    await agent?.[Symbol.asyncDispose]();
    return;
  }
  const hadPod = wasClaimed(memory.status);
  const mayRunAgain =
    !hadPod || (memory.resolved !== undefined && restartPolicy(memory.resolved.pod) !== "Never");
  const message = `Cell "${cell.metadata.name ?? ""}" is gone; the pod ${mayRunAgain ? "gets a new one" : "is not started again (restartPolicy Never)"}`;
  onEvent(memory, "CellLost", message);
  memory.attempt = cell.spec.attempt + 1;
  memory.restartCounts = restartCounts(memory, hadPod);
  forgetCell(memory);
  if (!mayRunAgain) {
    memory.isPodFinished = true;
    memory.waitingFor = { reason: "CellLost", message };
  }
  await agent?.[Symbol.asyncDispose]();
}

/** The report that an agent sends when it is asked; undefined if it has no pod. */
async function firstReport(
  agent: AgentClient,
  signal: AbortSignal,
): Promise<PodReport | undefined> {
  for await (const report of agent.status(signal)) return report;
  signal.throwIfAborted();
  return undefined;
}

function restartCounts(memory: CellMemory, hadPod: boolean): Readonly<Record<string, number>> {
  const { report, restartCounts: earlier, resolved } = memory;
  const counts: Record<string, number> = { ...earlier };
  for (const { name, restartCount } of [
    ...(report?.initContainers ?? []),
    ...(report?.containers ?? []),
  ])
    counts[name] = (earlier[name] ?? 0) + restartCount + (hadPod ? 1 : 0);
  if (report || !hadPod) return counts;
  // The cell was lost while kip was away: the API has what it told last, earlier cells included.
  const { initContainerStatuses = [], containerStatuses = [] } = resolved?.pod.status ?? {};
  for (const { name, restartCount } of [...initContainerStatuses, ...containerStatuses])
    counts[name] = Math.max(earlier[name] ?? 0, restartCount) + 1;
  return counts;
}
