/** A failure as a program of ours printed it. */
export interface PrintedFailure {
  readonly message: string;
  readonly remedy: string | undefined;
}

/**
 * The failure at the end of a program's output, in the form of `printFailure`: `kip: ` and the reason, and a second line
 * with what to do. Without one, the last line; undefined for an empty output.
 */
export function printedFailure(output: string): PrintedFailure | undefined {
  const lines = output.split("\n");
  const index = lines.findLastIndex((line) => line.startsWith("kip: "));
  if (index >= 0) {
    const remedy = /^ {5}(\S.*)$/.exec(lines[index + 1] ?? "")?.[1];
    return { message: lines[index]?.slice("kip: ".length) ?? "", remedy };
  }
  const message = lines.findLast((line) => line.trim() !== "");
  return message === undefined ? undefined : { message, remedy: undefined };
}
