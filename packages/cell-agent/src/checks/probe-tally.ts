/** A probe's verdict on a container. */
export type ProbeVerdict = "success" | "failure";

/** Counts the results of a probe. Its verdict changes after enough consecutive results of one kind. */
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

  /** Adds a result. Returns the verdict, or undefined while there are too few consecutive results. */
  add(result: ProbeVerdict): ProbeVerdict | undefined {
    this.#inRow = result === this.#last ? this.#inRow + 1 : 1;
    this.#last = result;
    const enough = result === "success" ? this.#successThreshold : this.#failureThreshold;
    return this.#inRow >= enough ? result : undefined;
  }
}
