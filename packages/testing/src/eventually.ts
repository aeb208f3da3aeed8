/** Options of {@link eventually}. */
export interface EventuallyOptions {
  /** Description of the condition, for the error. @default its source text */
  readonly what?: string | undefined;
  /** Maximum wait, milliseconds. @default 30000 */
  readonly limitMs?: number | undefined;
  /** Pause between two checks, milliseconds. @default 20 */
  readonly intervalMs?: number | undefined;
}

/**
 * Polls until a condition is met. Use it only if there is no event to wait for.
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
