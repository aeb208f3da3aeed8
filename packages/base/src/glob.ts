/** The longest pattern that {@link globMatches} accepts, in characters. No name that it is compared with is longer. */
export const maxGlobLength = 253;

/**
 * Whether a pattern matches a whole text. `*` stands for any text, `?` for one character, and every other character for itself.
 * A pattern longer than {@link maxGlobLength} matches nothing.
 *
 * Patterns come from pods and Secrets, so the number of steps is bounded by pattern length times text length. On a mismatch it
 * backtracks only to the last `*`, because an earlier one cannot lead to another match.
 */
export function globMatches(pattern: string, text: string): boolean {
  if (pattern.length > maxGlobLength) return false;
  let inPattern = 0;
  let inText = 0;
  let afterStar = -1; // position after the last `*`
  let starEnd = 0; // end of the text that this `*` stands for
  while (inText < text.length) {
    const wanted = pattern[inPattern];
    if (wanted === "*") {
      inPattern += 1;
      afterStar = inPattern;
      starEnd = inText;
    } else if (wanted === "?" || wanted === text[inText]) {
      inPattern += 1;
      inText += 1;
    } else if (afterStar >= 0) {
      starEnd += 1;
      inPattern = afterStar;
      inText = starEnd;
    } else {
      return false;
    }
  }
  while (pattern[inPattern] === "*") inPattern += 1;
  return inPattern === pattern.length;
}
