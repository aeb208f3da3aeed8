import { inParallel, withTimeout, type Clock, type Logger } from "@kip/base";
import type { AgentClient, AgentStats, ReportedPod } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";

/** Time limit for a cell's answer, milliseconds. A busy cell must not hold up the others. */
const timeoutMs = 5000;
/**
 * Time limit for all cells together, milliseconds: half of the virtual kubelet's, which drops all figures when its
 * own has passed.
 */
const allTimeoutMs = 8000;
/** Cells that are asked at the same moment. */
const parallel = 200;
/** How long an answer is used, milliseconds. Several collectors ask at about the same time; cAdvisor itself measures every 10 s. */
const freshMs = 5000;

/** A pod whose cell is connected. */
export interface MeasuredPod {
  readonly uid: string;
  readonly agent: AgentClient;
  readonly report: ReportedPod | undefined;
  /** The resolved pod. Figures of containers and volumes that it does not have are ignored. */
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
 * Asks the agents of cells for their figures, and keeps each answer for five seconds: however often a node is scraped, a cell
 * is asked once in that time. At most 200 cells are asked at the same moment.
 */
export class CellStats {
  readonly #options: CellStatsOptions;
  readonly #answers = new WeakMap<AgentClient, Answer>();

  constructor(options: CellStatsOptions) {
    this.#options = options;
  }

  /**
   * The figures of pods by their cells, in no particular order; pods whose cell does not answer within 5 s are left out, and
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
    // Not ended by the caller's signal: other callers may wait for the same answer.
    const ask = async (limit: AbortSignal): Promise<AgentStats> => await agent.stats(limit);
    const stats = withTimeout(ask, { limitMs: timeoutMs, clock });
    this.#answers.set(agent, { timeMs: nowMs, stats });
    stats.catch(() => this.#answers.delete(agent));
    signal.throwIfAborted();
    return await stats;
  }
}
