/**
 * Matches two dollar signs, a reference, or a reference that is not closed. The last one extends to the end of the
 * text, so that no text is searched more than once.
 */
const referenceMarks = /\$\$|\$\(([^)]*)(\)|$)/g;

/**
 * Replaces each reference `$(NAME)` of a text as Kubernetes does for `env`, `command` and `args`: `$$` is a dollar sign, a reference that
 * is not closed stays, and nothing is expanded twice.
 *
 * @param valueOf what takes the place of a reference, from its name and its whole text
 * @see https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 */
export function expandReferences(
  text: string,
  valueOf: (name: string, whole: string) => string,
): string {
  // One pass from the left: "$$" first, so that "$$(A)" is the text "$(A)".
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
