/**
 * Matches two dollar signs, a reference, or an unclosed reference. An unclosed one extends to the end of the text, so no part
 * of the text is searched twice.
 */
const referenceMarks = /\$\$|\$\(([^)]*)(\)|$)/g;

/**
 * Expands each reference `$(NAME)` in a text as Kubernetes does for `env`, `command` and `args`. `$$` is a dollar sign, an
 * unclosed reference stays as it is, and nothing is expanded twice.
 *
 * @param valueOf returns the replacement, given the name and the whole reference
 * @see https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 */
export function expandReferences(
  text: string,
  valueOf: (name: string, whole: string) => string,
): string {
  // One pass from the left. "$$" comes first, so that "$$(A)" becomes the text "$(A)".
  return text.replace(referenceMarks, (whole, name: string | undefined, end: string) =>
    name === undefined || end === "" ? whole.replaceAll("$$", "$") : valueOf(name, whole),
  );
}

/** The names that a text refers to, in order. */
export function referencesIn(text: string): readonly string[] {
  return [...text.matchAll(referenceMarks)].flatMap(([, name, end]) =>
    name === undefined || end === "" ? [] : [name],
  );
}
