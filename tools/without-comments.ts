/** A source without the lines that are comments, because examples in comments are not part of the program. */
export function withoutComments(source: string): string {
  return source.replaceAll(/^\s*(?:\/?\*|\/\/).*$/gm, "");
}
