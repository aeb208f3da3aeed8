import type { ChangeTerm } from "@kip/cloud";

/** The term of this process's current turn, for a driver that outlives turns. Before the first turn, the term is not held. */
export class CurrentTerm {
  #term: ChangeTerm = { isHeld: () => false };

  /** The term for a change that begins now. A term that has ended does not start again. */
  readonly get = (): ChangeTerm => this.#term;

  /** Call this when a turn begins. */
  begin(term: ChangeTerm): void {
    this.#term = term;
  }
}
