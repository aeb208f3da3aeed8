/** A time as `metav1.MicroTime`: `2025-01-02T03:04:05.678000Z`. */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}

/** A time as `metav1.Time`, to the second: `2025-01-02T03:04:05Z`. */
export function wireTime(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}
