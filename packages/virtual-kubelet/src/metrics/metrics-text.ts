/** A value of a family. */
export interface MetricSample {
  /** Appended to the family's name, for example `_bucket`. */
  readonly suffix?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly value: number;
  /** When it was measured, milliseconds since the epoch. @default the time of reading */
  readonly timeMs?: number | undefined;
}

/** Values with the same metric name. */
export interface MetricFamily {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** A description in one line. */
  readonly help: string;
  readonly samples: readonly MetricSample[];
}

/** Media type of {@link metricsText}. */
export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Families in Prometheus' text format, version 0.0.4. Omits families without samples.
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function metricsText(families: readonly MetricFamily[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(
      ({ name, type, help, samples }) =>
        `# HELP ${name} ${escape(help)}\n# TYPE ${name} ${type}\n` +
        samples.map((sample) => sampleLine(name, sample)).join(""),
    )
    .join("");
}

function sampleLine(name: string, { suffix = "", labels, value, timeMs }: MetricSample): string {
  const pairs = Object.entries(labels ?? {}).map(
    ([label, text]) => `${label}="${escape(text).replaceAll('"', '\\"')}"`,
  );
  const set = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  const time = timeMs === undefined ? "" : ` ${Math.round(timeMs)}`;
  return `${name}${suffix}${set} ${number(value)}${time}\n`;
}

function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function number(value: number): string {
  if (Number.isFinite(value)) return String(value);
  if (Number.isNaN(value)) return "NaN";
  return value > 0 ? "+Inf" : "-Inf";
}
