import { constants } from "node:os";
import { readCommandLine } from "./command-line.ts";
import { runCommandLine } from "./commands.ts";
import { exitCodeOf } from "./exit-code.ts";
import { commonOptions, helpText } from "./option-table.ts";
import { jsonReporter, textReporter, type Reporter } from "./reporter.ts";

const out = (text: string): void => void process.stdout.write(text);
const stop = new AbortController();
/** The signal that stopped the program. The exit code then follows the convention of shells. */
let stoppedBy: keyof typeof constants.signals | undefined;
const end = (signal: "SIGINT" | "SIGTERM" | "SIGPIPE"): void => {
  stoppedBy ??= signal;
  process.exitCode = 128 + constants.signals[stoppedBy];
  stop.abort(new Error("interrupted"));
};
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, end);
// The reader of the output has closed it.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => end("SIGPIPE"));
void main();

/** No top-level `await`, because the packed program is not a module. */
async function main(): Promise<void> {
  let reporter: Reporter = textReporter(out, process.stderr, false);
  try {
    const { words, options } = readCommandLine(commonOptions, process.argv.slice(2), process.env);
    reporter = options.isSet("json")
      ? jsonReporter(out)
      : textReporter(out, process.stderr, !options.isSet("quiet"));
    if (options.isSet("version")) out("tosi 0.1.0\n");
    else if (options.isSet("help")) out(helpText());
    else {
      const { signal } = stop;
      await runCommandLine({ words, options, env: process.env, reporter, signal });
    }
  } catch (error) {
    reporter.failed(error);
    if (stoppedBy === undefined) process.exitCode = exitCodeOf(error);
  }
}
