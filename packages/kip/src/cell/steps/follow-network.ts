import { AgentError, type AgentClient } from "@kip/agent-api";
import { pause } from "@kip/base";
import type { ViewSubscription } from "@kip/cluster-network";
import type { CellContext } from "../cell-step.ts";
import type { CellTools } from "./step-context.ts";

/** After how long a pod says that it waits for the cluster's network, milliseconds. */
const lateMs = 10_000;

/** Keeps the rules of a cell for Services and policies up to date until the connection ends. Never throws. */
export async function followNetwork(
  tools: Pick<CellTools, "network" | "onProblem" | "clock" | "logger">,
  client: AgentClient,
  { state }: Pick<CellContext, "state">,
): Promise<void> {
  const { network, onProblem, logger } = tools;
  if (!network) return;
  const { uid: podUid, namespace } = state().podRef;
  const closed = new AbortController();
  void client.closed.then(() => closed.abort());
  const { signal } = closed;
  let subscription: ViewSubscription | undefined;
  try {
    if (!(await network.isWatched())) {
      const reason = "kip may not watch services, endpointslices and networkpolicies";
      onProblem(podUid, "NetworkUnavailable", `The pod has no Services and policies: ${reason}`);
      return;
    }
    await untilSynced(network, { ...tools, podUid, signal });
    await client.sendNetwork((sums) => {
      subscription = network.subscribe({ podUid, namespace, sums });
      return subscription;
    }, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (AgentError.is(error, "AGENT_NOT_FOUND")) {
      const reason = "the agent of its cell is of an earlier version";
      onProblem(podUid, "NetworkUnsupported", `The pod has no Services and policies: ${reason}`);
      return;
    }
    logger.warn("Could not send a cell more of the cluster's network", { podUid, err: error });
    // A cell without the newest policies is not left to itself.
    await client[Symbol.asyncDispose]();
  } finally {
    subscription?.[Symbol.dispose]();
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
