/** Values that a span can carry. */
export type SpanFields = Readonly<Record<string, string | number | boolean>>;

/** A timed piece of work. */
export interface Span {
  /** Sets fields. The last value of a name counts. */
  with(fields: SpanFields): void;
  /** Records an event during the work. */
  log(level: string, message: string, fields?: SpanFields): void;
  /**
   * Ends the span, with the error if the work failed, now or at a time in milliseconds since the epoch. Has no effect on an
   * ended span.
   */
  end(error?: unknown, endedAt?: number): void;
}

/** The trace and the start time of a span. */
export interface SpanOptions {
  /** 32 lower-case hexadecimal digits. The spans of one trace are recorded or dropped together. @default a new trace */
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

/** Starts a span in the trace of a pod. */
export function startPodSpan(
  tracer: Tracer,
  name: string,
  { namespace, name: podName, uid }: { namespace: string; name: string; uid: string },
  startedAt?: number,
): Span {
  const fields = { pod: `${namespace}/${podName}`, podUid: uid };
  return tracer.start(name, fields, { ...podTrace(uid), startedAt });
}

/** A pod's trace. Its ID is the pod's UID, which has the right length. */
export function podTrace(podUid: string): SpanOptions {
  const traceId = podUid.replaceAll("-", "").toLowerCase();
  return /^(?!0{32})[0-9a-f]{32}$/.test(traceId) ? { traceId } : {};
}
