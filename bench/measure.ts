import { readFileSync } from "node:fs";

/** Prints one figure as a JSON line. */
export function figure(
  name: string,
  values: readonly number[],
  unit: string,
  extra: object = {},
): void {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
  const rounded = (value: number): number => Math.round(value * 100) / 100;
  console.log(
    JSON.stringify({
      figure: name,
      unit,
      n: sorted.length,
      min: rounded(at(0)),
      median: rounded(at(0.5)),
      max: rounded(at(1)),
      ...extra,
    }),
  );
}

/** The value in the middle. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Resident memory of a process, MiB. */
export function residentMiB(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return match ? Number(match[1]) / 1024 : Number.NaN;
}
