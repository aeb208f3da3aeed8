/** The text before the first occurrence of a separator; the whole text without one. */
export function textBefore(text: string, separator: string): string {
  const at = text.indexOf(separator);
  return at < 0 ? text : text.slice(0, at);
}
