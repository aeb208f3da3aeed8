/** A source without the lines that are comments, whose examples are not part of the program. */
export function withoutComments(source: string): string {
  return source.replaceAll(/^\s*(?:\/?\*|\/\/).*$/gm, "");
}
