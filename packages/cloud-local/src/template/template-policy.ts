/** A template, as far as its removal is concerned. */
export interface StoredTemplate {
  readonly key: string;
  /** Disk space. */
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly lastUsedAt: number;
  /** Whether a machine's disk is based on it. */
  readonly isInUse: boolean;
}

/**
 * Chooses templates to remove so that all together do not exceed the limit, starting with those unused for longest. Templates
 * in use stay, even if the limit is then exceeded.
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
