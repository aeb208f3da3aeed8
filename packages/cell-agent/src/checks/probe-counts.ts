import type { AgentStats } from "@kip/agent-api";
import type { ProbeKind } from "./container-probes.ts";

type Counts = NonNullable<AgentStats["probes"]>[number];

/** How probes went since the agent has begun. No decision depends on it, so the pod's state does without. */
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
