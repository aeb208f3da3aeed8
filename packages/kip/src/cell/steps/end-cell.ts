import { hasCode } from "@kip/base";
import { carriedContainers } from "../../status/lost-containers.ts";
import { forgetCell, wasClaimed, type CellMemory } from "../../state/cell-memory.ts";
import { listsAfterLoss } from "../../status/lost-cell.ts";
import { firstReport } from "./first-report.ts";
import { required, type StepContext, type StepActor } from "./step-context.ts";

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
  memory.drainSentAt = context.options.clock.monotonic();
}

/**
 * Saves the logs of a finished pod before its machine is ended. The plan aborts it after its time limit: a cell costs money
 * and does not stay because of its logs.
 *
 * @throws the reason of the plan's abort
 * @throws {CodedError} code `AGENT_UNREACHABLE`: repeat it over another connection
 */
export async function saveLogs(
  context: StepContext,
  memory: CellMemory,
  signal: AbortSignal,
): Promise<void> {
  const { agent } = memory;
  const { archive, clock, logger } = context.options;
  // The logs of a removed pod are deleted with it; a pod that gets another cell has the logs of that one.
  if (memory.wanted.kind === "run" && memory.isPodFinished && agent) {
    memory.saveLogsSince ??= clock.monotonic();
    try {
      const report = memory.report ?? (await firstReport(agent, signal));
      if (report) await archive.save(memory.podRef.uid, agent, report, signal);
    } catch (error) {
      if (signal.aborted || hasCode(error, "AGENT_UNREACHABLE")) throw error;
      logger.warn("Could not save the logs of a finished pod", { err: error });
    }
  }
  memory.areLogsSaved = true;
}

/** Ends the instance. */
export async function terminate(
  context: StepContext,
  actor: StepActor,
  signal: AbortSignal,
): Promise<void> {
  const { memory } = actor;
  const { driver } = context.options;
  const id = required(memory.instance, "there is no instance").id;
  if (memory.status.phase !== "Terminating") {
    context.setStatus(memory, { phase: "Terminating" });
    // A pod that gets another cell is no longer ready, and has no address.
    actor.statusChanged();
  }
  await driver.terminate(id);
  await driver.waitForTerminated(id, signal);
  memory.instanceState = "gone";
  await memory.agent?.[Symbol.asyncDispose]();
}

/** Deletes the Cell, whose instance is gone; a pod that lost its cell gets another one. */
export async function deleteCell(
  context: StepContext,
  actor: StepActor,
  isLost: boolean,
): Promise<void> {
  const { memory } = actor;
  const { store, onEvent, logger } = context.options;
  const cell = required(memory.cell, "there is no cell");
  await store.remove(cell);
  logger.info("Deleted a Cell", { cell: cell.metadata.name, podUid: memory.podRef.uid });
  const { agent } = memory;
  if (!isLost) {
    forgetCell(memory);
    await agent?.[Symbol.asyncDispose]();
    return;
  }
  if (wasClaimed(memory.status)) carryContainers(memory);
  const message = `Cell "${cell.metadata.name ?? ""}" is gone; the pod gets a new one`;
  onEvent(memory, "CellLost", message);
  memory.attempt = cell.spec.attempt + 1;
  forgetCell(memory);
  await agent?.[Symbol.asyncDispose]();
}

/** Notes the container facts that the pod takes to its next cell. */
function carryContainers(memory: CellMemory): void {
  const { pod, sentEphemeral } = memory;
  const lists = listsAfterLoss(memory);
  if (!pod || !lists) return;
  Object.assign(memory, carriedContainers(pod, lists, sentEphemeral));
  memory.publishedStatus = { ...memory.publishedStatus, ...lists };
}
