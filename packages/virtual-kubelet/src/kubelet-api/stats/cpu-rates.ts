import type { Usage } from "../../usage.ts";

/** Shortest interval for computing a rate, milliseconds. */
const leastMs = 1000;

interface Point {
  readonly timeMs: number;
  readonly cpuNanoseconds: number;
  readonly nanoCores?: number | undefined;
}

/** Computes CPU usage rates between consecutive measurements. */
export class CpuRates {
  #points = new Map<string, Point>();
  #next = new Map<string, Point>();

  /** CPU usage since the last measurement, billionths of a processor. Undefined for the first measurement. */
  rate(key: string, { timeMs, cpuNanoseconds }: Usage): number | undefined {
    if (cpuNanoseconds === undefined) return undefined;
    const before = this.#points.get(key);
    const now = { timeMs, cpuNanoseconds };
    const elapsedMs = timeMs - (before?.timeMs ?? 0);
    // The counter decreased: the container was restarted, or the clock was set back.
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

  /** Ends a measurement: forgets keys that were not part of it. */
  endMeasurement(): void {
    this.#points = this.#next;
    this.#next = new Map();
  }
}
