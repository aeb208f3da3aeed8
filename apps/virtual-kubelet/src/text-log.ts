/** A log record of `createLogger`, one JSON document, as a line for people: `time level message key=value`. */
export function textLine(record: string): string {
  const { time, level, msg, ...fields } = JSON.parse(record) as Readonly<Record<string, unknown>>; // our own logger's
  const head = `${text(time)} ${text(level).toUpperCase().padEnd(5)} ${text(msg)}`;
  return [head, ...fieldTexts(fields)].join(" ");
}

/** The fields as `key=value`, sorted; what holds spaces is quoted. */
export function fieldTexts(fields: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(fields)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => {
      const plain = text(value);
      return `${key}=${/[\s"=]/.test(plain) || plain === "" ? JSON.stringify(plain) : plain}`;
    });
}

function text(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
