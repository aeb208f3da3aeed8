import type { Usage } from "../../usage.ts";

/** Shortest time between two measurements that a rate is made of, milliseconds. */
const leastMs = 1000;

interface Point {
  readonly timeMs: number;
  readonly cpuNanoseconds: number;
  readonly nanoCores?: number | undefined;
}

/** How fast processor time is used, from one look to the next. */
export class CpuRates {
  #points = new Map<string, Point>();
  #next = new Map<string, Point>();

  /** Billionths of a processor in use since the last look; undefined at the first look. */
  rate(key: string, { timeMs, cpuNanoseconds }: Usage): number | undefined {
    if (cpuNanoseconds === undefined) return undefined;
    const before = this.#points.get(key);
    const now = { timeMs, cpuNanoseconds };
    const elapsedMs = timeMs - (before?.timeMs ?? 0);
    // Less than before: it was started again, or the clock was set back.
    if (before === undefined || cpuNanoseconds < before.cpuNanoseconds || elapsedMs < 0) {
      this.#next.set(key, now);
      return undefined;
    }
    if (elapsedMs < leastMs) {
      this.#next.set(key, before);
      return before.nanoCores;
    }
    const nanoCores = Math.round(((cpuNanoseconds - before.cpuNanoseconds) / elapsedMs) * 1000);
    this.#next.set(key, { ...now, nanoCores });
    return nanoCores;
  }

  /** Ends a look: what was not asked for in it is forgotten. */
  endLook(): void {
    this.#points = this.#next;
    this.#next = new Map();
  }
}
