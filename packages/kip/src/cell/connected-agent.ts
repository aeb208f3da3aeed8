import type { AgentClient } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";
import type { CellWorker } from "./cell-worker.ts";

/**
 * The client of the agent that a pod's worker is connected to.
 *
 * @param worker undefined if the pod has none
 * @throws {ProviderError} code `CELL_NOT_READY`, retryable, if there is no connection
 */
export function connectedAgent(
  pod: Pod,
  worker: Pick<CellWorker, "state"> | undefined,
): AgentClient {
  const client = worker?.state.agent.client;
  if (client) return client;
  throw new ProviderError(
    "CELL_NOT_READY",
    `Cannot reach pod "${pod.metadata.name}": its cell is not connected`,
    {
      retryable: true,
      remedy: "See the pod's events and the Cell's phase: kubectl describe pod, kubectl get cells",
    },
  );
}
