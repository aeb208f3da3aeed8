/**
 * Puts a new list into an order that keeps what it shares with an earlier one in its place, so that only the differences
 * are elements to change.
 */
export function arrange(before: readonly string[], next: readonly string[]): readonly string[] {
  const rest = new Set(next);
  const result: (string | undefined)[] = Array.from({ length: next.length }, (_, index) => {
    const entry = before[index];
    return entry !== undefined && rest.delete(entry) ? entry : undefined;
  });
  const others = rest.values();
  return result.map((entry) => entry ?? others.next().value ?? "");
}
