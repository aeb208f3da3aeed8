import { inParallel, withTimeout, type Clock, type Logger } from "@kip/base";
import type { AgentClient, AgentStats, ReportedPod } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";

/** Time limit for a cell's response, milliseconds. A busy cell must not delay the others. */
const timeoutMs = 5000;
/** Time limit for all cells together, milliseconds: half of the virtual kubelet's, which drops all statistics after its own. */
const allTimeoutMs = 8000;
/** Maximum number of concurrent requests. */
const parallel = 200;
/**
 * How long a response is reused, milliseconds. Several collectors ask at about the same time. cAdvisor itself measures every 10
 * s.
 */
const freshMs = 5000;

/** A pod whose cell is connected. */
export interface MeasuredPod {
  readonly uid: string;
  readonly agent: AgentClient;
  readonly report: ReportedPod | undefined;
  /** The resolved pod. Statistics of containers and volumes that it does not have are ignored. */
  readonly pod: Pod | undefined;
}

/** Options of {@link CellStats}. */
export interface CellStatsOptions {
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Answer {
  readonly timeMs: number;
  readonly stats: Promise<AgentStats>;
}

/**
 * Asks the agents of cells for statistics, and caches each response for five seconds. So however often a node is scraped, each
 * cell is asked once in that time. At most 200 cells are asked concurrently.
 */
export class CellStats {
  readonly #options: CellStatsOptions;
  readonly #answers = new WeakMap<AgentClient, Answer>();

  constructor(options: CellStatsOptions) {
    this.#options = options;
  }

  /**
   * The statistics of pods by their cells, unordered. Pods whose cell does not respond within 5 s are left out, and so are
   * those whose turn does not come within 8 s.
   */
  async ask<T>(
    pods: readonly MeasuredPod[],
    signal: AbortSignal,
    convert: (pod: MeasuredPod, stats: AgentStats) => readonly T[],
  ): Promise<readonly T[]> {
    const { clock, logger } = this.#options;
    const endMs = clock.monotonic() + allTimeoutMs;
    const found: T[] = [];
    await inParallel(pods, parallel, async (pod) => {
      if (signal.aborted || clock.monotonic() > endMs) return;
      try {
        found.push(...convert(pod, await this.#stats(pod.agent, signal)));
      } catch (error) {
        logger.debug("Could not read the usage of a pod from its cell", {
          podUid: pod.uid,
          err: error,
        });
      }
    });
    return found;
  }

  async #stats(agent: AgentClient, signal: AbortSignal): Promise<AgentStats> {
    const { clock } = this.#options;
    const nowMs = clock.monotonic();
    const known = this.#answers.get(agent);
    if (known && nowMs - known.timeMs < freshMs) return await known.stats;
    // The caller's signal does not end it, because other callers may wait for the same response.
    const ask = async (limit: AbortSignal): Promise<AgentStats> => await agent.stats(limit);
    const stats = withTimeout(ask, { limitMs: timeoutMs, clock });
    this.#answers.set(agent, { timeMs: nowMs, stats });
    stats.catch(() => this.#answers.delete(agent));
    signal.throwIfAborted();
    return await stats;
  }
}
