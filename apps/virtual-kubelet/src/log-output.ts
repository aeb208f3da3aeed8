import { closeSync, fstatSync, openSync, renameSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { KipError, logLevels, type LogLevel, type OptionValues } from "@kip/base";

/** Where log lines go; disposing it closes the file. */
export interface LogOutput extends Disposable {
  write(line: string, level: LogLevel): void;
}

/** klog's severities and their numbers. */
const severities: Readonly<Record<string, LogLevel>> = {
  INFO: "info",
  0: "info",
  WARNING: "warn",
  1: "warn",
  ERROR: "error",
  2: "error",
  FATAL: "error",
  3: "error",
};

/**
 * Standard error, or what klog's flags make of it.
 *
 * @throws {KipError} `OPTION_INVALID`
 */
export function openLogOutput(
  options: OptionValues,
  print: (line: string) => void = (line) => void process.stderr.write(`${line}\n`),
): LogOutput {
  if (options.isSet("klog.logtostderr")) return { write: print, [Symbol.dispose]: () => {} };
  const shown = options.isSet("klog.alsologtostderr")
    ? "klog.alsologtostderrthreshold"
    : "klog.stderrthreshold";
  const threshold = logLevels.indexOf(severity(shown, options.required(shown)));
  const directory = options.text("klog.log_dir") ?? tmpdir();
  const file = new LogFile(
    options.text("klog.log_file") ?? path.join(directory, "virtual-kubelet.log"),
    options.integer("klog.log_file_max_size", { min: 0, max: 1_000_000 }) * 1_000_000,
  );
  return {
    write: (line, level) => {
      file.write(line);
      // INFO is klog's lowest: whatever else is written counts as it.
      if (Math.max(logLevels.indexOf(level), logLevels.indexOf("info")) >= threshold) print(line);
    },
    [Symbol.dispose]: () => file[Symbol.dispose](),
  };
}

/** The level that klog's verbosity asks for, if it asks for more than the given one. */
export function verboseLevel(level: LogLevel, options: OptionValues): LogLevel {
  if (options.text("klog.v") === undefined) return level;
  const verbosity = options.integer("klog.v", { min: 0, max: 1_000_000 });
  const asked = verbosity >= 8 ? "trace" : verbosity >= 4 ? "debug" : level;
  return logLevels[Math.min(logLevels.indexOf(level), logLevels.indexOf(asked))] ?? level;
}

function severity(flag: string, text: string): LogLevel {
  const found = severities[text.toUpperCase()];
  if (found) return found;
  throw new KipError(
    "OPTION_INVALID",
    `Cannot use --${flag} ${text}: INFO, WARNING, ERROR or FATAL is expected`,
  );
}

/** A file that grows to a size and then begins anew, with its older part beside it. */
class LogFile implements Disposable {
  readonly #path: string;
  readonly #maxBytes: number;
  #file: number;
  #size: number;

  constructor(file: string, maxBytes: number) {
    this.#path = file;
    this.#maxBytes = maxBytes;
    [this.#file, this.#size] = this.#open();
  }

  write(line: string): void {
    const bytes = Buffer.from(`${line}\n`);
    if (this.#maxBytes > 0 && this.#size > 0 && this.#size + bytes.length > this.#maxBytes) {
      closeSync(this.#file);
      renameSync(this.#path, `${this.#path}.1`);
      [this.#file, this.#size] = this.#open();
    }
    this.#size += writeSync(this.#file, bytes);
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }

  #open(): [file: number, size: number] {
    try {
      const file = openSync(this.#path, "a", 0o600);
      return [file, fstatSync(file).size];
    } catch (cause) {
      throw new KipError("OPTION_INVALID", `Cannot write the log file "${this.#path}"`, {
        cause,
        remedy: "Choose another with --klog.log_file, or log to standard error",
      });
    }
  }
}
