import { DecodeError } from "./errors.ts";

const suffixes: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** The longest text that is read as a quantity, in characters. The API server writes at most 30. */
const maxLength = 64;

/** Digits with at most one dot. Each character can match in one place only, so matching never backtracks. */
const shape = /^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]i?|Ki)?)$/;

/**
 * The value of a Kubernetes quantity ("250m", "1Gi", "2e3") as a number in base units.
 *
 * @throws {DecodeError} code `QUANTITY_INVALID` if the text is not a quantity, or has more than 64 characters
 * @see https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
 */
export function parseQuantity(text: string): number {
  const match = text.length > maxLength ? null : shape.exec(text.trim());
  const scale = match?.[3] === undefined ? 1 : (suffixes[match[3]] ?? Number.NaN);
  const value = match ? Number(match[1]) * scale * 10 ** Number(match[2] ?? 0) : Number.NaN;
  if (!Number.isFinite(value)) {
    const shown = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
    throw new DecodeError(
      "QUANTITY_INVALID",
      `Cannot read quantity "${shown}": it is not a number with a Kubernetes suffix`,
      {
        remedy: 'Write a number with an optional suffix, for example "500m", "2" or "1.5Gi"',
      },
    );
  }
  return value;
}

/** CPU quantity in thousandths of a core, rounded up. */
export function milliCpu(text: string): number {
  return Math.ceil(parseQuantity(text) * 1000 - 1e-6);
}

/** Memory or storage quantity in bytes, rounded up. */
export function bytes(text: string): number {
  return Math.ceil(parseQuantity(text) - 1e-6);
}

/** A whole number as the shortest exact decimal quantity: 12000 → "12k". */
export function formatDecimal(value: number): string {
  for (const suffix of ["E", "P", "T", "G", "M", "k"]) {
    const unit = suffixes[suffix] ?? 1;
    if (value >= unit && value % unit === 0) return `${value / unit}${suffix}`;
  }
  return String(value);
}

/** Thousandths of a processor as the API writes them: 1500 → "1500m", 2000 → "2". */
export function formatMilliCpu(milli: number): string {
  return milli % 1000 === 0 ? String(milli / 1000) : `${milli}m`;
}

/** Bytes as the shortest exact binary quantity: 1073741824 → "1Gi". */
export function formatBytes(value: number): string {
  for (const suffix of ["Ti", "Gi", "Mi", "Ki"]) {
    const unit = suffixes[suffix] ?? 1;
    if (value >= unit && value % unit === 0) return `${value / unit}${suffix}`;
  }
  return String(value);
}
