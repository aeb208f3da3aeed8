/** A failure as a program of ours printed it. */
export interface PrintedFailure {
  readonly message: string;
  readonly remedy: string | undefined;
}

/**
 * The failure at the end of a program's output, in the form of `printFailure`: `kip: ` and the reason, and what to do
 * in one or more further lines. Without one, the last line; undefined for an empty output.
 */
export function printedFailure(output: string): PrintedFailure | undefined {
  const lines = output.split("\n");
  const index = lines.findLastIndex((line) => line.startsWith("kip: "));
  if (index >= 0) {
    const rest = lines.slice(index + 1);
    const end = rest.findIndex((line) => !/^ {5}\S/.test(line));
    const remedy = (end < 0 ? rest : rest.slice(0, end)).map((line) => line.trim()).join("; ");
    const message = lines[index]?.slice("kip: ".length) ?? "";
    return { message, remedy: remedy === "" ? undefined : remedy };
  }
  const message = lines.findLast((line) => line.trim() !== "");
  return message === undefined ? undefined : { message, remedy: undefined };
}
