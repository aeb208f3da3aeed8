/** The first line of what a program said; empty if it said nothing. */
export function firstLine(text: unknown): string {
  return typeof text === "string" ? (text.trim().split("\n")[0] ?? "") : "";
}
