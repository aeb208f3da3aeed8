/** The longest pattern that {@link globMatches} takes, characters: no name it is compared with is longer. */
export const maxGlobLength = 253;

/**
 * Whether a pattern matches the whole of a text. `*` stands for any text, `?` for one character, every other
 * character for itself. A pattern longer than {@link maxGlobLength} matches nothing.
 *
 * Patterns come from pods and Secrets, so the time is bounded: at most pattern length times text length steps. A
 * mismatch goes back to the last `*` only; going back to an earlier one could find nothing more.
 */
export function globMatches(pattern: string, text: string): boolean {
  if (pattern.length > maxGlobLength) return false;
  let inPattern = 0;
  let inText = 0;
  let afterStar = -1; // position after the last `*`
  let starEnd = 0; // where the text that this `*` stands for ends
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
