import { constants } from "node:os";
import { errorText, isCodedError, OptionError } from "@kip/base";
import { plainText } from "./output/plain-text.ts";
import { runCommandLine } from "./run-command-line.ts";

const name = process.env["KIPCTL_NAME"] ?? "kipctl";
const stop = new AbortController();
/** As a shell has it for a program that a signal ended. */
let stoppedBy: keyof typeof constants.signals | undefined;
const end = (signal: "SIGINT" | "SIGTERM" | "SIGPIPE"): void => {
  stoppedBy ??= signal;
  stop.abort(new Error(`${stoppedBy} received`));
};
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => end(signal));
// The reader of the output is gone.
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

/** For a person. What the API server says of a pod may be the pod's own words. */
function say(line: string): void {
  process.stderr.write(`${plainText(line)}\n`);
}

/** Says what failed and what to do, in two lines or more. */
function printFailure(error: unknown): void {
  say(`${name}: ${errorText(error)}`);
  for (let current = error; current instanceof Error; current = current.cause)
    if (isCodedError(current) && current.remedy !== undefined) {
      say(`  ${current.remedy.replaceAll("\n", "\n  ")}`);
      return;
    }
  if (!isCodedError(error) && error instanceof Error) say(String(error.stack));
}
