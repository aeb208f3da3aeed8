import type { AgentStats } from "@kip/agent-api";
import type { ProbeKind } from "./container-probes.ts";

type Counts = NonNullable<AgentStats["probes"]>[number];

/** Counts the results of probes since the agent's start. Nothing depends on them, so they are not in the pod's state. */
export class ProbeCounts {
  readonly #counts = new Map<string, { -readonly [K in keyof Counts]: Counts[K] }>();

  add(container: string, kind: ProbeKind, isSuccess: boolean): void {
    const key = `${container} ${kind}`;
    const counts = this.#counts.get(key) ?? { container, kind, successful: 0, failed: 0 };
    counts[isSuccess ? "successful" : "failed"] += 1;
    this.#counts.set(key, counts);
  }

  get list(): readonly Counts[] {
    return [...this.#counts.values()];
  }
}
