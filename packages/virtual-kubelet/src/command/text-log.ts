import type { LogLevel } from "@kip/base";

/** Converts a JSON log record of `createLogger` to a readable line: `time level message key=value`. */
export function textLine(
  record: string,
  { hasHeader = true }: { readonly hasHeader?: boolean } = {},
): string {
  const { time, level, msg, ...fields } = JSON.parse(record) as Readonly<Record<string, unknown>>; // written by our logger
  const header = hasHeader ? `${text(time)} ${text(level).toUpperCase().padEnd(5)} ` : "";
  return [`${header}${text(msg)}`, ...fieldTexts(fields)].join(" ");
}

/** The level of a log record. */
export function levelOf(record: string): LogLevel {
  return (JSON.parse(record) as { readonly level: LogLevel }).level; // written by our logger
}

/** The fields as `key=value`, sorted. Values with spaces or control characters are quoted. */
export function fieldTexts(fields: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(fields)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => {
      const plain = text(value);
      return `${key}=${/[\s"=\p{Cc}]/u.test(plain) || plain === "" ? JSON.stringify(plain) : plain}`;
    });
}

function text(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
