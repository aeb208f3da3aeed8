/** What a probe says of a container. */
export type ProbeVerdict = "success" | "failure";

/** Counts the results of a probe: its verdict changes when enough of one kind came in a row. */
export class ProbeTally {
  readonly #successThreshold: number;
  readonly #failureThreshold: number;
  #last: ProbeVerdict | undefined;
  #inRow = 0;

  constructor(thresholds: {
    readonly success?: number | undefined;
    readonly failure?: number | undefined;
  }) {
    this.#successThreshold = thresholds.success ?? 1;
    this.#failureThreshold = thresholds.failure ?? 3;
  }

  /** The verdict once it is certain; undefined while too few results of a kind came in a row. */
  add(result: ProbeVerdict): ProbeVerdict | undefined {
    this.#inRow = result === this.#last ? this.#inRow + 1 : 1;
    this.#last = result;
    const enough = result === "success" ? this.#successThreshold : this.#failureThreshold;
    return this.#inRow >= enough ? result : undefined;
  }
}
