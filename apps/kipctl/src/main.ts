import { constants } from "node:os";
import { errorText, isCodedError, OptionError } from "@kip/base";
import { plainText } from "./output/plain-text.ts";
import { runCommandLine } from "./run-command-line.ts";

const name = process.env["KIPCTL_NAME"] ?? "kipctl";
const stop = new AbortController();
/** The signal that stopped the program. The exit code then follows the convention of shells. */
let stoppedBy: keyof typeof constants.signals | undefined;
const end = (signal: "SIGINT" | "SIGTERM" | "SIGPIPE"): void => {
  stoppedBy ??= signal;
  stop.abort(new Error(`${stoppedBy} received`));
};
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => end(signal));
// The reader of the output has closed it.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => end("SIGPIPE"));

try {
  process.exitCode = await runCommandLine(process.argv.slice(2), {
    env: process.env,
    signal: stop.signal,
    now: Date.now(),
    program: name,
    out: (text) => void process.stdout.write(text),
    note: say,
  });
} catch (error) {
  if (stoppedBy === undefined) printFailure(error);
  process.exitCode = OptionError.is(error) ? 2 : 1;
}
if (stoppedBy !== undefined) process.exitCode = 128 + constants.signals[stoppedBy];

/** Writes a line for the user. Text from the API server may come from the pod itself. */
function say(line: string): void {
  process.stderr.write(`${plainText(line)}\n`);
}

/** Prints what failed and what to do, in two or more lines. */
function printFailure(error: unknown): void {
  say(`${name}: ${errorText(error)}`);
  for (let current = error; current instanceof Error; current = current.cause)
    if (isCodedError(current) && current.remedy !== undefined) {
      say(`  ${current.remedy.replaceAll("\n", "\n  ")}`);
      return;
    }
  if (!isCodedError(error) && error instanceof Error) say(String(error.stack));
}
