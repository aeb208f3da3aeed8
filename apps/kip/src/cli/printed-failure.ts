/** A failure that one of our programs printed. */
export interface PrintedFailure {
  readonly message: string;
  readonly remedy: string | undefined;
}

/**
 * Finds the failure at the end of a program's output. It has the form of `printFailure`: `kip: ` and the reason, followed by
 * one or more lines on what to do. If there is none, returns the last line, or undefined if the output is empty.
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
