import { AgentError, type AgentClient } from "@kip/agent-api";
import { backoffDelay, errorText, pause } from "@kip/base";
import type { PodRef } from "../../state/cell-state.ts";
import type { CellContext } from "../cell-step.ts";
import type { CellTools } from "./step-context.ts";

/** How long a pod waits for the cluster's network before that is reported, milliseconds. */
const lateMs = 10_000;

/** Delays before sending changes again over the same connection, milliseconds. */
const backoff = { initialMs: 1000, maxMs: 60_000 } as const;

/** Dependencies of {@link followNetwork}. */
type NetworkTools = Pick<CellTools, "network" | "onProblem" | "clock" | "logger">;

/** After a stream that lasted this long, milliseconds, the delays start over. */
const steadyMs = 60_000;

/**
 * Keeps a cell's rules for Services and policies up to date until the connection ends. A failure only affects the network: it
 * is reported by an event of the pod, the rules on the cell stay as they are, and the connection is kept. Never throws.
 */
export async function followNetwork(
  tools: NetworkTools,
  client: AgentClient,
  { state }: Pick<CellContext, "state">,
): Promise<void> {
  const { onProblem, clock, logger } = tools;
  const { podRef } = state();
  const { uid: podUid } = podRef;
  const closed = new AbortController();
  void client.closed.then(() => closed.abort());
  const { signal } = closed;
  for (let attempt = 0; !signal.aborted; attempt++) {
    const startedAt = clock.monotonic();
    try {
      return await sendChanges(tools, client, { podRef, signal });
    } catch (error) {
      if (clock.monotonic() - startedAt > steadyMs) attempt = 0;
      // A stream that ends with its connection is not a separate problem. In a busy process the socket may close after the
      // pause.
      if (!(await pause(backoffDelay(attempt, backoff), clock, signal)) || client.isClosing) return;
      logger.warn("Could not send a cell more of the cluster's network", { podUid, err: error });
      const what = "The pod's Services and network policies are not up to date";
      onProblem(podUid, "NetworkNotReady", `${what}: ${errorText(error)}`);
    }
  }
}

/** Returns when the connection ends, or if the pod has no Services and policies. */
async function sendChanges(
  tools: NetworkTools,
  client: AgentClient,
  { podRef, signal }: { readonly podRef: PodRef; readonly signal: AbortSignal },
): Promise<void> {
  const { network, onProblem } = tools;
  const { uid: podUid, namespace } = podRef;
  if (!network) return;
  const without = (reason: string, why: string): void =>
    onProblem(podUid, reason, `The pod has no Services and policies: ${why}`);
  if (!(await network.isWatched())) {
    const why = "kip may not list and watch what it needs for them; its log names the resources";
    return without("NetworkUnavailable", why);
  }
  await untilSynced(network, { ...tools, podUid, signal });
  using subscriptions = new DisposableStack();
  try {
    await client.sendNetwork(({ sums, policyVersion = 1 }) => {
      const knowsTiers = policyVersion >= 2;
      const hasShortLists = policyVersion < 3;
      if (!knowsTiers && network.hasTiers()) {
        const closed = "directions that an administrator's policy restricts are closed";
        const why = `the agent of its cell is of an earlier version: ${closed}`;
        onProblem(podUid, "NetworkUnsupported", why);
      }
      const cell = { podUid, namespace, sums, knowsTiers, hasShortLists };
      return subscriptions.use(network.subscribe(cell));
    }, signal);
  } catch (error) {
    if (!AgentError.is(error, "AGENT_NOT_FOUND")) throw error;
    without("NetworkUnsupported", "the agent of its cell is of an earlier version");
  }
}

async function untilSynced(
  network: NonNullable<CellTools["network"]>,
  options: Pick<CellTools, "onProblem" | "clock"> & {
    readonly podUid: string;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { onProblem, clock, podUid, signal } = options;
  const done = new AbortController();
  void pause(lateMs, clock, AbortSignal.any([signal, done.signal])).then((isLate) => {
    const reason = "kip has not listed the cluster's Services, network policies and pods yet";
    if (isLate) onProblem(podUid, "NetworkNotReady", `The pod waits for its network: ${reason}`);
  });
  try {
    await network.synced(signal);
  } finally {
    done.abort();
  }
}
