/** Levels of a log record, lowest first. */
export const logLevels = ["trace", "debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

/** Data of a log record. The whole project uses the same field names: see {@link Logger}. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * A structured logger. The message is constant text. Everything that varies is a field.
 *
 * Common fields: `component, pod ("ns/name"), podUid, node, cell, instance, driver, image, durationMs, err`. A state change is
 * one `info` line, written after it happened, in the past tense.
 */
export interface Logger {
  trace(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every record. */
  with(fields: LogFields): Logger;
}

/** Options of {@link createLogger}. */
export interface LoggerOptions {
  /** Records below this level are dropped. @default "info" */
  readonly level?: LogLevel;
  /** Writes one JSON document, which has no line end. @default a line on standard error */
  readonly write?: (line: string) => void;
}

/** A logger that writes JSON lines: `{"time","level","msg",...fields}`. */
export function createLogger(options: LoggerOptions = {}): Logger {
  const lowest = logLevels.indexOf(options.level ?? "info");
  const write = options.write ?? ((line: string) => void process.stderr.write(`${line}\n`));
  return make({});

  function make(base: LogFields): Logger {
    const at =
      (level: LogLevel) =>
      (message: string, fields?: LogFields): void => {
        if (logLevels.indexOf(level) < lowest) return;
        const time = new Date().toISOString();
        write(JSON.stringify({ time, level, msg: message, ...base, ...fields }, replaceValue));
      };
    return {
      trace: at("trace"),
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      with: (fields) => make({ ...base, ...fields }),
    };
  }
}

/** A logger that drops every record. */
export const silentLogger: Logger = createLogger({ write: () => {}, level: "error" });

function replaceValue(_key: string, value: unknown): unknown {
  if (value instanceof Secret) return "[redacted]";
  if (!(value instanceof Error)) return value;
  const cause = value.cause === undefined ? {} : { cause: value.cause };
  const code = "code" in value ? { code: value.code } : {};
  return { message: value.message, ...code, ...cause, stack: value.stack };
}

/** A value that must not be printed. It shows as `[redacted]` in logs, JSON and templates. */
export class Secret<T = string> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The value itself. Call this only where the value is used. */
  reveal(): T {
    return this.#value;
  }

  toString(): string {
    return "[redacted]";
  }

  toJSON(): string {
    return "[redacted]";
  }
}
