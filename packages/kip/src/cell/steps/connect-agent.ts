import { waitForAgent, type AgentClient } from "@kip/agent-api";
import { ownValue } from "@kip/base";
import type { CellChange } from "../../state/cell-change.ts";
import { isInUse, type CellState } from "../../state/cell-state.ts";
import { isStandby } from "../../state/cell.ts";
import type { CellContext } from "../cell-step.ts";
import { firstReport } from "./follow-agent.ts";
import { instanceFacts } from "./start-instance.ts";
import { cellOf, required, setTransientStatus, setStatus, type CellTools } from "./step-context.ts";

/** A connection to an agent, with start times. */
interface Dialed {
  readonly client: AgentClient;
  /** Time from the first attempt to the connection, milliseconds. */
  readonly bootMs: number;
  readonly answeredAt: number;
}

/** Dials until the cell's agent responds. */
export async function connect(tools: CellTools, context: CellContext): Promise<CellChange> {
  const open = tools.standby?.takeAgent(cellOf(context).metadata.uid);
  // The cell was just claimed, so its agent has no pod.
  if (open) return { kind: "connected", client: open, startMs: { cloud: 0, boot: 0, dial: 0 } };
  context.change({ kind: "dialing" });
  const dialed = await dial(tools, context);
  try {
    context.signal.throwIfAborted();
    return await introduce(tools, context, dialed);
  } catch (error) {
    await dialed.client[Symbol.asyncDispose]();
    throw error;
  }
}

async function dial(
  { identities, clock, logger, dial: dialAgent = waitForAgent }: CellTools,
  context: CellContext,
): Promise<Dialed> {
  const { machine } = context.state();
  const began = clock.monotonic();
  const { certificate, key } = await identities.clientPair();
  let answeredAt = began;
  const client = await dialAgent({
    address: required(machine.instance?.managementIp, "the instance has no address"),
    cellName: cellOf(context).metadata.name,
    ca: identities.ca,
    certificate,
    key,
    logger,
    signal: context.signal,
    onAccepted: () => {
      answeredAt = clock.monotonic();
    },
  });
  return { client, answeredAt, bootMs: answeredAt - began };
}

/** Asks the agent about its pod. */
async function introduce(
  tools: CellTools,
  context: CellContext,
  { client, bootMs, answeredAt }: Dialed,
): Promise<CellChange> {
  const { state, signal } = context;
  const info = await client.info(signal);
  if (info.podUid !== undefined) {
    const report = await firstReport(client, context);
    // An agent of an earlier version only has it in its reports.
    const generation = info.podGeneration ?? report?.generation;
    return { kind: "connected", client, generation, report };
  }
  const generation = info.podGeneration;
  const { bootId: bootID } = info;
  const { phase, bootID: before = bootID } = state().cell.status;
  if (isInUse(phase)) {
    // A pod that has ended here has nothing to stop and no logs to save. A kip that was killed may have sent it.
    const isPodLost = state().end.isPodFinished || hasRunHere(state()) || bootID !== before;
    return { kind: "connected", client, generation, isPodLost };
  }
  const startMs = { boot: bootMs, dial: tools.clock.monotonic() - answeredAt };
  const facts = instanceFacts(state().machine.instance);
  // A standby cell stays in this phase, so write it soon. Any other cell gets its pod now, and that phase is written.
  const set = isStandby(cellOf(context)) ? setStatus : setTransientStatus;
  set(tools, context, { phase: "Ready", bootID, ...facts });
  return { kind: "connected", client, generation, startMs };
}

/**
 * Whether containers of the pod are known to have run on this cell. An agent keeps its pod while its machine runs. So an agent
 * without a pod was restarted together with its machine.
 */
export function hasRunHere({ pod, status, agent, containers }: CellState): boolean {
  if (agent.report) return true;
  const { initContainerStatuses = [], containerStatuses = [] } = status ?? pod.object?.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].some(
    ({ name, state, restartCount }) =>
      state?.running !== undefined ||
      restartCount > (ownValue(containers.restartCounts, name) ?? 0),
  );
}
