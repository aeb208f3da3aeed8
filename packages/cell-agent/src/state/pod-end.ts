/** Until when something has to end. */
export interface End {
  /** Milliseconds since the epoch. */
  readonly endMs: number;
  /** The period was set to 0: end at once, politeness is not wanted. */
  readonly isForced: boolean;
}

/** An end so many milliseconds from now. */
export function endIn(graceMs: number, nowMs: number): End {
  return { endMs: nowMs + graceMs, isForced: graceMs === 0 };
}

/** A period can be shortened while it runs, never lengthened. */
export function earlierEnd(before: End | undefined, next: End): End {
  if (before === undefined) return next;
  const isForced = before.isForced || next.isForced;
  if (next.endMs >= before.endMs && isForced === before.isForced) return before;
  return { endMs: Math.min(before.endMs, next.endMs), isForced };
}
