import { closeSync, constants, fstatSync, openSync, renameSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { errorText, logLevels, type LogLevel, type OptionValues, OptionError } from "@kip/base";

/** The destination of log lines. Disposing it closes the file. */
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
 * Opens the destination of log lines: standard error, or the one in klog's flags.
 *
 * @throws {OptionError} `OPTION_INVALID`
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
  const named = options.text("klog.log_file");
  const file = new LogFile({
    path: named ?? path.join(directory, "virtual-kubelet.log"),
    maxBytes: options.integer("klog.log_file_max_size", { min: 0, max: 1_000_000 }) * 1_000_000,
    isOwn: named === undefined,
    print,
  });
  return {
    write: (line, level) => {
      const isWritten = file.write(line);
      // INFO is klog's lowest severity, so lower levels count as INFO.
      const rank = Math.max(logLevels.indexOf(level), logLevels.indexOf("info"));
      if (rank >= threshold || !isWritten) print(line);
    },
    [Symbol.dispose]: () => file[Symbol.dispose](),
  };
}

/** The level that klog's verbosity requests, if it is lower than the given one. */
export function verboseLevel(level: LogLevel, options: OptionValues): LogLevel {
  if (options.text("klog.v") === undefined) return level;
  const verbosity = options.integer("klog.v", { min: 0, max: 1_000_000 });
  const asked = verbosity >= 8 ? "trace" : verbosity >= 4 ? "debug" : level;
  return logLevels[Math.min(logLevels.indexOf(level), logLevels.indexOf(asked))] ?? level;
}

function severity(flag: string, text: string): LogLevel {
  const found = severities[text.toUpperCase()];
  if (found) return found;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --${flag} ${text}: INFO, WARNING, ERROR or FATAL is expected`,
  );
}

interface LogFileOptions {
  readonly path: string;
  /** 0 means no limit. */
  readonly maxBytes: number;
  /**
   * Whether to refuse a symbolic link. Set for a predictable name: in a folder that everyone can write to, it could be another
   * user's link.
   */
  readonly isOwn: boolean;
  readonly print: (line: string) => void;
}

/** A log file that is renamed when it reaches a size. A new one then starts. */
class LogFile implements Disposable {
  readonly #path: string;
  readonly #maxBytes: number;
  readonly #flags: number;
  readonly #print: (line: string) => void;
  /** Undefined while it cannot be written. */
  #file: number | undefined;
  #size = 0;

  constructor({ path: file, maxBytes, isOwn, print }: LogFileOptions) {
    const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW } = constants;
    this.#path = file;
    this.#maxBytes = maxBytes;
    this.#flags = O_APPEND | O_CREAT | O_WRONLY | (isOwn ? O_NOFOLLOW : 0);
    this.#print = print;
    try {
      this.#open();
    } catch (cause) {
      throw new OptionError("OPTION_INVALID", `Cannot write the log file "${file}"`, {
        cause,
        remedy: "Choose another with --klog.log_file, or log to standard error",
      });
    }
  }

  /** @returns whether the line is in the file. Never throws: a full disk must not end the process that logs */
  write(line: string): boolean {
    const wasOpen = this.#file !== undefined;
    try {
      const bytes = Buffer.from(`${line}\n`);
      if (this.#maxBytes > 0 && this.#size > 0 && this.#size + bytes.length > this.#maxBytes) {
        this[Symbol.dispose]();
        renameSync(this.#path, `${this.#path}.1`);
      }
      const file = this.#file ?? this.#open();
      this.#size += writeSync(file, bytes);
      return true;
    } catch (error) {
      this[Symbol.dispose]();
      if (wasOpen) this.#print(`Could not write the log file "${this.#path}": ${errorText(error)}`);
      return false;
    }
  }

  [Symbol.dispose](): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) closeSync(file);
  }

  #open(): number {
    const file = openSync(this.#path, this.#flags, 0o600);
    this.#file = file;
    this.#size = fstatSync(file).size;
    return file;
  }
}
