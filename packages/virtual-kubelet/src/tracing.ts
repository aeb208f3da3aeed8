/** Values that a span can carry. */
export type SpanFields = Readonly<Record<string, string | number | boolean>>;

/** A piece of work that is timed. */
export interface Span {
  /** Sets fields; the last value of a name counts. */
  with(fields: SpanFields): void;
  /** Something happened during the work. */
  log(level: string, message: string, fields?: SpanFields): void;
  /** Ends the span, with the error that ended the work; now, or at a time in milliseconds since the epoch. Ending it again does nothing. */
  end(error?: unknown, endedAt?: number): void;
}

/** What a span belongs to, and when it was. */
export interface SpanOptions {
  /** 32 lower-case hexadecimal digits; spans of one trace are taken or left out together. @default a trace of its own */
  readonly traceId?: string | undefined;
  /** Milliseconds since the epoch. @default now */
  readonly startedAt?: number | undefined;
}

/** Starts spans. */
export interface Tracer {
  start(name: string, fields?: SpanFields, options?: SpanOptions): Span;
}

const noSpan: Span = { with: () => {}, log: () => {}, end: () => {} };

/** A tracer that drops everything. */
export const noTracer: Tracer = { start: () => noSpan };

/** A span of the trace of all that is done for one pod. */
export function startPodSpan(
  tracer: Tracer,
  name: string,
  { namespace, name: podName, uid }: { namespace: string; name: string; uid: string },
  startedAt?: number,
): Span {
  const fields = { pod: `${namespace}/${podName}`, podUid: uid };
  return tracer.start(name, fields, { ...podTrace(uid), startedAt });
}

/** The trace of a pod: its UID, which has the length of a trace's ID. */
export function podTrace(podUid: string): SpanOptions {
  const traceId = podUid.replaceAll("-", "").toLowerCase();
  return /^(?!0{32})[0-9a-f]{32}$/.test(traceId) ? { traceId } : {};
}
