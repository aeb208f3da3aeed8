import { AgentError, type AgentClient, type PodReport } from "@kip/agent-api";
import { startPodSpan } from "@kip/virtual-kubelet/telemetry";
import { keepIdentity } from "../../identity/keep-identity.ts";
import type { CellPart, CellState } from "../../state/cell-state.ts";
import { containerNames } from "../../status/restrict-report.ts";
import type { AgentFollower, CellContext, StandbyFollower } from "../cell-step.ts";
import { followNetwork } from "./follow-network.ts";
import { prepareImages } from "./start-instance.ts";
import { cellOf, rounded, setStatus, type CellTools } from "./step-context.ts";

/** Follows an agent's reports, sends it the cluster's network, and renews its identity, until the connection ends. */
export async function followAgent(
  tools: CellTools,
  client: AgentClient,
  follower: AgentFollower,
): Promise<void> {
  const { identities, clock, logger } = tools;
  const { state, onLost } = follower;
  void client.closed.then(onLost);
  await Promise.all([
    followReports(tools, client, follower),
    followNetwork(tools, client, follower),
    keepIdentity({
      agent: client,
      identities,
      clock,
      logger,
      cellName: cellOf(follower).metadata.name,
      expires: () => Date.parse(state().cell.status.identityExpires ?? ""),
      onRenewed: (expires) =>
        setStatus(tools, follower, { identityExpires: expires.toISOString() }),
    }),
  ]);
}

/** Renews the identity of a standby cell until the connection ends or a pod gets the cell. */
export async function keepStandbyIdentity(
  tools: CellTools,
  client: AgentClient,
  follower: StandbyFollower,
): Promise<void> {
  const { identities, clock, logger } = tools;
  const { state, isReleased, released } = follower;
  await keepIdentity({
    agent: {
      closed: Promise.race([client.closed, released]),
      putIdentity: async (identity, signal) => await client.putIdentity(identity, signal),
    },
    identities,
    clock,
    logger,
    cellName: cellOf(follower).metadata.name,
    expires: () => Date.parse(state().cell.status.identityExpires ?? ""),
    onRenewed: (expires) => {
      // If a pod got the cell in the meantime, that pod's worker writes the status and renews soon.
      if (!isReleased()) setStatus(tools, follower, { identityExpires: expires.toISOString() });
    },
  });
}

async function followReports(
  { logger }: CellTools,
  client: AgentClient,
  { state, onReport }: AgentFollower,
): Promise<void> {
  const abort = new AbortController();
  void client.closed.then(() => abort.abort());
  try {
    const reports = client.status(abort.signal, () => containerCount(state()));
    const onNext = (report: PodReport): void => {
      // An abandoned cell may still send reports.
      if (state().agent.client === client) onReport(report);
    };
    while (await passNext(reports, onNext));
  } catch (error) {
    const level = AgentError.is(error, "AGENT_UNREACHABLE") ? "debug" : "warn";
    logger[level]("Could not read the status stream of a cell further", { err: error });
  }
  // A connection without a status stream is replaced.
  await client[Symbol.asyncDispose]();
}

/**
 * Passes on the next report. Resolves with false if there is none. This is a separate function, because a loop would keep the
 * report in memory until the next one.
 */
async function passNext(
  reports: AsyncIterator<PodReport, void>,
  onReport: (report: PodReport) => void,
): Promise<boolean> {
  const next = await reports.next();
  if (next.done !== true) onReport(next.value);
  return next.done !== true;
}

/** Number of the pod's containers of all kinds. While the pod is not known, a number that no pod exceeds. */
function containerCount({ pod }: CellState): number {
  return pod.object ? containerNames(pod.object).size : Infinity;
}

/** The agent's current report. Undefined if it has no pod. */
export async function firstReport(
  agent: AgentClient,
  { state, signal }: Pick<CellContext, "state" | "signal">,
): Promise<PodReport | undefined> {
  for await (const report of agent.status(signal, () => containerCount(state()))) return report;
  signal.throwIfAborted();
  return undefined;
}

/**
 * Takes image digests from the agent's report, and completes the start times once. The cloud may prepare the images when the
 * pod has started. Earlier, that would take CPU time from the start itself.
 */
export function noteReport(tools: CellTools, context: Pick<CellContext, "state" | "change">): void {
  const { agent, cell, pod } = context.state();
  const isNew = tools.knownImages.learn(agent.report, pod.resolved?.pod);
  const { pull = 0, unpack = 0, start } = agent.report?.timingsMs ?? {};
  if (start === undefined) return;
  const known = cell.status.startMs;
  const isFirst = known !== undefined && known.start === undefined;
  if (isFirst) noteStart(tools, context, rounded({ ...known, pull, unpack, start }));
  if (isFirst || isNew) prepareImages(tools, context);
}

function noteStart(
  tools: CellTools,
  context: Pick<CellContext, "state" | "change">,
  startMs: CellPart["startMs"],
): void {
  const { cell, podRef } = context.state();
  setStatus(tools, context, { startMs });
  tools.metrics.started({ ...cell.status, startMs });
  traceStart(tools, podRef, startMs);
}

/** Records the phases on the agent as consecutive spans that end now. */
function traceStart(
  { tracer, clock }: Pick<CellTools, "tracer" | "clock">,
  podRef: CellState["podRef"],
  startMs: CellPart["startMs"],
): void {
  let endedAt = clock.now();
  for (const phase of ["start", "unpack", "pull"] as const) {
    const startedAt = endedAt - (startMs[phase] ?? 0);
    startPodSpan(tracer, `agent.${phase}`, podRef, startedAt).end(undefined, endedAt);
    endedAt = startedAt;
  }
}
