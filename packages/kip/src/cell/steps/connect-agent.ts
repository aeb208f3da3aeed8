import { hasCode } from "@kip/base";
import { waitForAgent, type AgentClient } from "@kip/agent-api";
import { keepIdentity } from "../../identity/keep-identity.ts";
import type { CellMemory } from "../../state/cell-memory.ts";
import { firstReport } from "./first-report.ts";
import { instanceFacts } from "./start-instance.ts";
import { required, type StepContext, type StepActor } from "./step-context.ts";

/** Dials until the cell's agent answers, and follows its reports from then on. */
export async function connect(
  context: StepContext,
  actor: StepActor,
  signal: AbortSignal,
): Promise<void> {
  const { memory } = actor;
  const cell = required(memory.cell, "there is no cell");
  const { identities, clock, logger } = context.options;
  const began = clock.monotonic();
  memory.unreachableSince ??= began;
  const pair = await identities.clientPair();
  let answeredAt = began;
  const agent = await waitForAgent({
    address: required(memory.instance?.managementIp, "the instance has no address"),
    cellName: cell.metadata.name ?? "",
    ca: identities.ca,
    certificate: pair.certificate,
    key: pair.key,
    logger,
    signal,
    onAccepted: () => {
      answeredAt = clock.monotonic();
    },
  });
  try {
    signal.throwIfAborted();
    const info = await agent.info(signal);
    // An agent of an earlier version has it only in its reports.
    const mustAsk = info.podUid !== undefined && info.podGeneration === undefined;
    const first = mustAsk ? await firstReport(agent, signal) : undefined;
    noteGeneration(memory, info.podGeneration ?? first?.generation);
    const wasGiven = ["Claimed", "Draining"].includes(memory.status.phase);
    if (info.podUid === undefined && wasGiven) memory.isPodLost = hasRunHere(memory);
    if (info.podUid === undefined && !wasGiven) {
      memory.startMs.boot = answeredAt - began;
      memory.startMs.dial = clock.monotonic() - answeredAt;
      context.setStatus(memory, { phase: "Ready", ...instanceFacts(memory.instance) });
    }
  } catch (error) {
    await agent[Symbol.asyncDispose]();
    throw error;
  }
  actor.agentFound(agent);
  void agent.closed.then(() => {
    if (memory.agent === agent) actor.agentLost();
  });
  void followReports(context, actor, agent);
  void keepIdentity({
    agent,
    identities,
    clock,
    logger,
    cellName: cell.metadata.name ?? "",
    expires: () => Date.parse(memory.status.identityExpires ?? ""),
    onRenewed: (expires) => context.setStatus(memory, { identityExpires: expires.toISOString() }),
  });
}

/**
 * Whether containers of the pod are known to have run on this cell. An agent remembers its pod while its machine runs: an
 * agent without a pod was started again together with its machine.
 */
export function hasRunHere({ pod, publishedStatus, report, restartCounts }: CellMemory): boolean {
  if (report) return true;
  const { initContainerStatuses = [], containerStatuses = [] } =
    publishedStatus ?? pod?.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].some(
    ({ name, state, restartCount }) =>
      state?.running !== undefined || restartCount > (restartCounts[name] ?? 0),
  );
}

/** Notes which generation of the pod the agent has: the agent ignores one that is not newer. */
export function noteGeneration(memory: CellMemory, held: number | undefined): void {
  if (held !== undefined) memory.agentGeneration = Math.max(memory.agentGeneration ?? 0, held);
}

async function followReports(
  context: StepContext,
  actor: StepActor,
  agent: AgentClient,
): Promise<void> {
  const abort = new AbortController();
  void agent.closed.then(() => abort.abort());
  try {
    for await (const report of agent.status(abort.signal)) {
      // A cell that was abandoned may still send.
      if (actor.memory.agent === agent) actor.reportSeen(report);
    }
  } catch (error) {
    const level = hasCode(error, "AGENT_UNREACHABLE") ? "debug" : "warn";
    context.options.logger[level]("Could not read the status stream of a cell further", {
      err: error,
    });
  }
  // A connection without its status stream is replaced.
  await agent[Symbol.asyncDispose]();
}
