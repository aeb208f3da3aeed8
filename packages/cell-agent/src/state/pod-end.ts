/** When something has to end. */
export interface End {
  /** Milliseconds since the Unix epoch. */
  readonly endMs: number;
}

/** An end this many milliseconds from now. */
export function endIn(graceMs: number, nowMs: number): End {
  return { endMs: nowMs + graceMs };
}

/** The earlier of two ends. A period can be shortened while it runs, but not extended. */
export function earlierEnd(before: End | undefined, next: End): End {
  return before === undefined || next.endMs < before.endMs ? next : before;
}
