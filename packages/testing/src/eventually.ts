/** Options of {@link eventually}. */
export interface EventuallyOptions {
  /** The condition in words, for the error. @default its source text */
  readonly what?: string | undefined;
  /** Longest wait, milliseconds. @default 30000 */
  readonly limitMs?: number | undefined;
  /** Pause between two looks, milliseconds. @default 20 */
  readonly intervalMs?: number | undefined;
}

/**
 * Waits until a condition is met that no event announces. Where one does, wait for the event.
 *
 * @throws {Error} after the time limit
 */
export async function eventually(
  condition: () => Promise<boolean> | boolean,
  options: EventuallyOptions = {},
): Promise<void> {
  const { what = condition.toString(), limitMs = 30_000, intervalMs = 20 } = options;
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`Not met within ${limitMs / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}
