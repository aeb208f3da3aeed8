import type { Clock } from "@kip/base";
import { reduceCell } from "../cell/reduce-cell.ts";
import type { CellContext } from "../cell/cell-step.ts";
import type { CellChange } from "../state/cell-change.ts";
import { newCellState, type CellState } from "../state/cell-state.ts";

/** The parts of a state that a test specifies. */
export type CellStateParts = {
  readonly [K in Exclude<keyof CellState, "podRef" | "nodeIp" | "status">]?: Partial<CellState[K]>;
} & Pick<CellState, "status">;

/** The state of pod `default/web` with UID `p` on node 192.0.2.1: a new one, except for these parts. */
export function cellStateWith({ status, ...parts }: CellStateParts = {}): CellState {
  const fresh = newCellState({ namespace: "default", name: "web", uid: "p" }, "192.0.2.1");
  const changed = Object.entries(parts).map(([name, part]) => [
    name,
    { ...fresh[name as keyof typeof parts], ...part },
  ]);
  return { ...fresh, ...Object.fromEntries(changed), status };
}

/** A state with its reducer, for tests that call steps directly. */
export class StateUnderTest {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  state: CellState;

  constructor(state: CellState, clock: Pick<Clock, "now" | "monotonic">) {
    this.state = state;
    this.#clock = clock;
  }

  apply(change: CellChange): void {
    const now = { monotonicMs: this.#clock.monotonic(), wallMs: this.#clock.now() };
    this.state = reduceCell(this.state, change, now);
  }

  /** Runs a step as the reconciler does. */
  async run(
    step: (context: CellContext) => Promise<CellChange | undefined>,
    signal = new AbortController().signal,
  ): Promise<void> {
    const change = await step({
      state: () => this.state,
      change: (each) => this.apply(each),
      signal,
      onReplanned: () => {},
    });
    if (change) this.apply(change);
  }
}
