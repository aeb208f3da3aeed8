import type { LaunchExtra } from "@kip/cloud";

/** Documentation of an annotation. */
export interface AnnotationFacts {
  /** Meaning, for the documentation. Markdown, with links relative to `docs`. */
  readonly meaning: string;
  /** Why the annotation has no effect, as a sentence without its full stop. */
  readonly withoutEffect?: string;
  /** What the cloud has to support. If it does not, the annotation has no effect. @default nothing special */
  readonly needs?: LaunchExtra;
}

/** An annotation of a pod, without its prefix. */
export interface Annotation<T> extends AnnotationFacts {
  /** Describes its value. Follows "is not" in messages, and is also used in the documentation. */
  readonly expected: string;
  /** Parses the value. Undefined if it is not as expected. Takes linear time. Never throws. */
  readonly read: (text: string) => T | undefined;
}

export function annotation<T>(
  expected: string,
  read: (text: string) => T | undefined,
  facts: AnnotationFacts,
): Annotation<T> {
  return { expected, read, ...facts };
}

/** Parses a Boolean like Go's strconv.ParseBool, which the original uses for annotations. */
export function readBoolean(text: string): boolean | undefined {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  return ["0", "f", "F", "FALSE", "false", "False"].includes(text) ? false : undefined;
}

/** Parses a decimal number: digits, with an optional point and sign. */
export function readNumber(text: string): number | undefined {
  return text.length <= 32 && /^[+-]?(\d+(\.\d*)?|\.\d+)$/.test(text) ? Number(text) : undefined;
}
