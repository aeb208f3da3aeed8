import { defined } from "@kip/base";
import type { LogOptions } from "../pod-provider.ts";
import { HttpRefusal } from "./transport/answer.ts";

/** Go's spellings of booleans. */
const booleans: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "T", "true", "TRUE", "True"].map((word) => [word, true] as const),
  ...["0", "f", "F", "false", "FALSE", "False"].map((word) => [word, false] as const),
]);

/** RFC 3339, section 5.6. */
const timestamp = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;

/**
 * Parses the query of `containerLogs`. Like the kubelet, ignores unknown keys.
 *
 * @param nowMs the time from which `sinceSeconds` counts back, milliseconds since the epoch
 * @throws HttpRefusal 400 naming the key
 */
export function parseLogQuery(query: URLSearchParams, nowMs: number): LogOptions {
  const tailLines = wholeNumber(query, "tailLines", 0);
  const limitBytes = wholeNumber(query, "limitBytes", 1);
  const sinceSeconds = wholeNumber(query, "sinceSeconds", 1);
  const sinceTime = valueOf(query, "sinceTime");
  if (sinceSeconds !== undefined && sinceTime !== "")
    throw new HttpRefusal(400, "at most one of sinceTime or sinceSeconds may be specified");
  const stream = streamOf(query);
  if (stream !== undefined && tailLines !== undefined)
    throw new HttpRefusal(400, `tailLines: may not be specified when stream is "${stream}"`);
  if (sinceTime !== "" && !(timestamp.test(sinceTime) && Number.isFinite(Date.parse(sinceTime))))
    throw new HttpRefusal(400, `sinceTime: "${sinceTime}" is not an RFC 3339 time`);
  const sinceTimeMs =
    sinceSeconds === undefined ? Date.parse(sinceTime) : nowMs - sinceSeconds * 1000;
  return defined({
    follow: truth(query, "follow"),
    previous: truth(query, "previous"),
    timestamps: truth(query, "timestamps"),
    tailLines,
    sinceTimeMs: Number.isFinite(sinceTimeMs) ? sinceTimeMs : undefined,
    limitBytes,
    stream,
  });
}

/** A value of the query, or "" if it is absent, which means the same. */
function valueOf(query: URLSearchParams, key: string): string {
  return query.get(key) ?? "";
}

/** The option `stream` of KEP-3288. */
function streamOf(query: URLSearchParams): LogOptions["stream"] {
  const stream = valueOf(query, "stream");
  if (stream === "" || stream === "All") return undefined;
  if (stream === "Stdout" || stream === "Stderr") return stream;
  throw new HttpRefusal(400, `stream: "${stream}" is not one of All, Stdout, Stderr`);
}

function wholeNumber(query: URLSearchParams, key: string, least: number): number | undefined {
  const text = valueOf(query, key);
  if (text === "") return undefined;
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value))
    throw new HttpRefusal(400, `${key}: "${text}" is not a whole number`);
  if (value < least)
    throw new HttpRefusal(400, `${key}: must be greater than or equal to ${least}, not ${value}`);
  return value;
}

function truth(query: URLSearchParams, key: string): boolean {
  const text = valueOf(query, key);
  if (text === "") return false;
  const value = booleans.get(text);
  if (value === undefined) throw new HttpRefusal(400, `${key}: "${text}" is not true or false`);
  return value;
}
