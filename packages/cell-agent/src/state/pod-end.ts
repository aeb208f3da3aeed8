/** Until when something has to end. */
export interface End {
  /** Milliseconds since the epoch. */
  readonly endMs: number;
}

/** An end so many milliseconds from now. */
export function endIn(graceMs: number, nowMs: number): End {
  return { endMs: nowMs + graceMs };
}

/** A period can be shortened while it runs, never lengthened. */
export function earlierEnd(before: End | undefined, next: End): End {
  return before === undefined || next.endMs < before.endMs ? next : before;
}
