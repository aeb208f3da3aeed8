import type { LaunchExtra } from "@kip/cloud";

/** What people should know of an annotation. */
export interface AnnotationFacts {
  /** For the documentation. Markdown; links are relative to `docs`. */
  readonly meaning: string;
  /** The annotation has no effect: why, a sentence without its end. */
  readonly withoutEffect?: string;
  /** What the cloud must be able to give a cell; where it cannot, the annotation has no effect. @default nothing special */
  readonly needs?: LaunchExtra;
}

/** An annotation of a pod, without the prefix of its family. */
export interface Annotation<T> extends AnnotationFacts {
  /** What its value is, as it follows "is not" and stands in the documentation. */
  readonly expected: string;
  /** The value; undefined: it is something else than expected. Linear in the length of the text. Never throws. */
  readonly read: (text: string) => T | undefined;
}

export function annotation<T>(
  expected: string,
  read: (text: string) => T | undefined,
  facts: AnnotationFacts,
): Annotation<T> {
  return { expected, read, ...facts };
}

/** As Go's strconv.ParseBool, which the original reads annotations with. */
export function readBoolean(text: string): boolean | undefined {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  return ["0", "f", "F", "FALSE", "false", "False"].includes(text) ? false : undefined;
}

/** A decimal number as people write it: digits, a point, a sign. */
export function readNumber(text: string): number | undefined {
  return text.length <= 32 && /^[+-]?(\d+(\.\d*)?|\.\d+)$/.test(text) ? Number(text) : undefined;
}
