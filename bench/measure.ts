import { readFileSync } from "node:fs";

/** Prints one figure as a JSON line. */
export function figure(
  name: string,
  values: readonly number[],
  unit: string,
  extra: object = {},
): void {
  console.log(
    JSON.stringify({
      figure: name,
      unit,
      n: values.length,
      min: rounded(percentile(values, 0)),
      p50: rounded(percentile(values, 0.5)),
      p99: rounded(percentile(values, 0.99)),
      max: rounded(percentile(values, 1)),
      ...extra,
    }),
  );
}

/** The value that this share of the values does not exceed. NaN if there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** The median. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Two decimals. */
export function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Prints rows in columns that are as wide as needed. */
export function table(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  for (const row of rows)
    console.log(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "));
}

/** Resident memory of a process, MiB. */
export function residentMiB(pid: number): number {
  return kilobytes(`/proc/${pid}/status`, "VmRSS") / 1024;
}

/** Memory of a process, MiB. Shared pages are divided equally among the processes that share them. */
export function proportionalMiB(pid: number): number {
  return kilobytes(`/proc/${pid}/smaps_rollup`, "Pss") / 1024;
}

function kilobytes(file: string, key: string): number {
  const match = new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(readFileSync(file, "utf8"));
  return match ? Number(match[1]) : Number.NaN;
}
