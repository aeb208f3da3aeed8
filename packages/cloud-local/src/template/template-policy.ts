/** A template as far as its removal goes. */
export interface StoredTemplate {
  readonly key: string;
  /** On disk. */
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly lastUsedAt: number;
  /** Whether a machine's disk stands on it. */
  readonly isInUse: boolean;
}

/**
 * Which templates go so that all together take no more than the limit: those that were not used for longest. One
 * that a machine stands on stays, even if the limit is not met then.
 */
export function chooseForRemoval(
  templates: readonly StoredTemplate[],
  limitBytes: number,
): readonly string[] {
  let total = templates.reduce((sum, { bytes }) => sum + bytes, 0);
  const chosen: string[] = [];
  const oldestFirst = [...templates].sort((a, b) => a.lastUsedAt - b.lastUsedAt);
  for (const { key, bytes, isInUse } of oldestFirst) {
    if (total <= limitBytes) break;
    if (isInUse) continue;
    chosen.push(key);
    total -= bytes;
  }
  return chosen;
}
