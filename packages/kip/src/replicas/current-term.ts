import type { ChangeTerm } from "@kip/cloud";

/** The term of a process's turn under way, for a driver that outlives its turns. Before the first turn nothing is held. */
export class CurrentTerm {
  #term: ChangeTerm = { isHeld: () => false };

  /** The term in which a change begins that is made now; it ends for good with its turn. */
  readonly get = (): ChangeTerm => this.#term;

  /** A turn begins. */
  begin(term: ChangeTerm): void {
    this.#term = term;
  }
}
