import { randomBytes } from "node:crypto";
import { errorText, type Clock } from "@kip/base";
import type { Span, SpanFields, Tracer } from "../../tracing.ts";

/** An ended span in OTLP's JSON form. */
export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly name: string;
  /** SPAN_KIND_INTERNAL. */
  readonly kind: 1;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly OtlpAttribute[];
  readonly events: readonly {
    readonly timeUnixNano: string;
    readonly name: string;
    readonly attributes: readonly OtlpAttribute[];
  }[];
  /** 1 = ok, 2 = error. */
  readonly status: { readonly code: 1 | 2; readonly message?: string };
}

/** A key and its value. */
export interface OtlpAttribute {
  readonly key: string;
  readonly value:
    | { readonly stringValue: string }
    | { readonly intValue: string }
    | { readonly doubleValue: number }
    | { readonly boolValue: boolean };
}

/** Options of {@link createTracer}. */
export interface TracerOptions {
  readonly clock: Clock;
  /** Gets the spans that have ended. */
  readonly onEnd: (span: OtlpSpan) => void;
  /** Share of the traces to record, 0 to 1. @default 1 */
  readonly sampleShare?: number | undefined;
}

/** Creates a tracer. A span without a trace starts a new one. */
export function createTracer({ clock, onEnd, sampleShare = 1 }: TracerOptions): Tracer {
  return {
    start: (name, fields = {}, { traceId = randomBytes(16).toString("hex"), startedAt } = {}) => {
      const isTaken = shareOf(traceId) < sampleShare;
      const common = { clock, onEnd: isTaken ? onEnd : () => {} };
      return recordingSpan(name, fields, {
        ...common,
        traceId,
        startedAt: startedAt ?? clock.now(),
      });
    },
  };
}

/** A trace's position between 0 and 1, from the first bits of its ID. */
function shareOf(traceId: string): number {
  return Number.parseInt(traceId.slice(0, 8), 16) / 2 ** 32;
}

function recordingSpan(
  name: string,
  first: SpanFields,
  {
    clock,
    onEnd,
    traceId,
    startedAt,
  }: Pick<TracerOptions, "clock" | "onEnd"> & {
    readonly traceId: string;
    readonly startedAt: number;
  },
): Span {
  const startTimeUnixNano = nanoseconds(startedAt);
  const fields = new Map(Object.entries(first));
  const events: OtlpSpan["events"][number][] = [];
  let isEnded = false;
  return {
    with: (more) => {
      for (const [key, value] of Object.entries(more)) fields.set(key, value);
    },
    log: (level, message, more = {}) => {
      const attributes = attributesOf(Object.entries({ ...more, level }));
      if (!isEnded)
        events.push({ timeUnixNano: nanoseconds(clock.now()), name: message, attributes });
    },
    end: (error, endedAt = clock.now()) => {
      if (isEnded) return;
      isEnded = true;
      onEnd({
        traceId,
        spanId: randomBytes(8).toString("hex"),
        name,
        kind: 1,
        startTimeUnixNano,
        endTimeUnixNano: nanoseconds(endedAt),
        attributes: attributesOf(fields),
        events,
        status: error === undefined ? { code: 1 } : { code: 2, message: errorText(error) },
      });
    },
  };
}

/** Attributes with OTLP's value types: string, bool, int and double. */
export function attributesOf(
  entries: Iterable<readonly [string, string | number | boolean]>,
): OtlpAttribute[] {
  return [...entries].map(([key, value]) => {
    if (typeof value === "string") return { key, value: { stringValue: value } };
    if (typeof value === "boolean") return { key, value: { boolValue: value } };
    return Number.isSafeInteger(value)
      ? { key, value: { intValue: String(value) } }
      : { key, value: { doubleValue: value } };
  });
}

function nanoseconds(ms: number): string {
  return `${Math.floor(ms)}000000`;
}
