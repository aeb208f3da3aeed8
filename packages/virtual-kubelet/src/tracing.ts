/** Values that a span can carry. */
export type SpanFields = Readonly<Record<string, string | number | boolean>>;

/** A piece of work that is timed. */
export interface Span {
  /** Sets fields; the last value of a name counts. */
  with(fields: SpanFields): void;
  /** Something happened during the work. */
  log(level: string, message: string, fields?: SpanFields): void;
  /** Ends the span, with the error that ended the work. Ending it again does nothing. */
  end(error?: unknown): void;
}

/** Starts spans. */
export interface Tracer {
  start(name: string, fields?: SpanFields): Span;
}

const noSpan: Span = { with: () => {}, log: () => {}, end: () => {} };

/** A tracer that drops everything. */
export const noTracer: Tracer = { start: () => noSpan };
