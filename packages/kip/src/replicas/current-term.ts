import type { ChangeTerm } from "@kip/cloud";

/**
 * The term of the turn that this process has now, for a driver that outlives its turns. Before the first turn nothing
 * is held.
 */
export class CurrentTerm {
  #term: ChangeTerm = { isHeld: () => false };

  /** The term for a change that begins now. A term that has ended does not begin again. */
  readonly get = (): ChangeTerm => this.#term;

  /** A turn begins. */
  begin(term: ChangeTerm): void {
    this.#term = term;
  }
}
