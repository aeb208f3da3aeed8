import type { Readable } from "node:stream";
import { AgentError } from "@kip/agent-api";
import { defined, untilAborted } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { VirtualKubeletError, type LogOptions } from "@kip/virtual-kubelet";
import type { CellWorker } from "../cell/cell-worker.ts";
import { connectedAgent } from "../cell/connected-agent.ts";
import { hasEnded, wasClaimed } from "../state/cell-state.ts";
import type { LogArchive } from "./log-archive.ts";

/** Options of {@link PodLogs}. */
export interface PodLogsOptions {
  readonly archive: Pick<LogArchive, "read">;
  /** The worker of a pod, if it has one. */
  readonly workerOf: (podUid: string) => CellWorker | undefined;
}

/** Logs of containers: of finished pods from the archive, of others from the pod's agent. */
export class PodLogs {
  readonly #options: PodLogsOptions;

  constructor(options: PodLogsOptions) {
    this.#options = options;
  }

  /**
   * Opens the log of a container. If the pod is finishing, waits until its log has been saved.
   *
   * @throws {VirtualKubeletError} code `VK_NOT_FOUND` if the container has no log
   * @throws {ProviderError} code `CELL_NOT_READY`, retryable, if the agent is not connected
   * @throws {AgentError} if the agent cannot respond
   * @throws the signal's reason when it aborts
   */
  async open(
    pod: Pod,
    container: string,
    options: LogOptions,
    signal: AbortSignal,
  ): Promise<Readable> {
    const { archive, workerOf } = this.#options;
    const { uid } = pod.metadata;
    const worker = workerOf(uid);
    if (worker) await untilSaved(worker, signal);
    const saved = await archive.read(uid, container, options);
    if (saved) return saved;
    // The pod may have got another worker, or ended, in the meantime.
    const present = workerOf(uid);
    if (!mayHaveLog(pod, present)) throw notFound(container, pod);
    const { follow, previous, timestamps, tailLines, sinceTimeMs, limitBytes } = options;
    const asked = defined({ follow, previous, timestamps, tailLines, sinceTimeMs, limitBytes });
    try {
      return await connectedAgent(pod, present).logs(container, asked, signal);
    } catch (error) {
      // The pod may have finished in between. Then its log has been saved, and its cell is being ended.
      const savedNow = await archive.read(uid, container, options);
      if (savedNow) return savedNow;
      if (!AgentError.is(error, "AGENT_CONTAINER_UNKNOWN", "AGENT_NO_POD")) throw error;
      throw notFound(container, pod, error);
    }
  }
}

/** Waits until the log of a finished pod is saved. Its cell is being ended, and a read there might break off. */
async function untilSaved(worker: CellWorker, signal: AbortSignal): Promise<void> {
  const { agent, end } = worker.state;
  if (!agent.client || !end.isPodFinished) return;
  // A pod that another client ended in the API still writes its log while it stops.
  if (agent.report && !hasEnded(agent.report)) return;
  await untilAborted(Promise.race([worker.logsSaved, worker.settled]), signal);
}

/** A pod has no logs if it was never dispatched, or if it finished without saving any. */
function mayHaveLog(pod: Pod, worker: CellWorker | undefined): boolean {
  const state = worker?.state;
  if (!state?.agent.client && hasEnded(pod.status)) return false;
  return !state || state.agent.report !== undefined || wasClaimed(state.cell.status);
}

function notFound(container: string, pod: Pod, cause?: unknown): VirtualKubeletError {
  return new VirtualKubeletError(
    "VK_NOT_FOUND",
    `Cannot find the log of container "${container}" in pod "${pod.metadata.name}"`,
    { cause },
  );
}
