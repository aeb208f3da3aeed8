import type { Bench } from "./bench.ts";
import type { CloudConformanceOptions, OptionalPart } from "./conformance-options.ts";

/** One clause of the contract, as a test. */
export interface ConformanceCase {
  /** The behaviour, as the rest of a sentence that begins with "it". */
  readonly name: string;
  /** Optional parts that a cloud must have for this clause. */
  readonly needs: readonly OptionalPart[];
  readonly run: (bench: Bench) => Promise<void>;
}

/** Clauses that belong together. */
export interface ConformanceTopic {
  readonly name: string;
  readonly cases: readonly ConformanceCase[];
}

/** A clause of the contract. */
export function clause(name: string, run: (bench: Bench) => Promise<void>): ConformanceCase {
  return { name, needs: [], run };
}

/** A clause about optional parts of the contract. */
export function clauseWith(
  needs: readonly OptionalPart[],
  name: string,
  run: (bench: Bench) => Promise<void>,
): ConformanceCase {
  return { name, needs, run };
}

/** Why a clause cannot be tested on this cloud. Undefined if it can. */
export function whySkipped(
  { needs }: ConformanceCase,
  options: CloudConformanceOptions,
): string | undefined {
  for (const part of needs) {
    const reason = options.without?.[part];
    if (reason !== undefined) return reason;
    if (part === "faults" && !options.faults) return "the cloud has no fault injection";
    if (part === "guest" && !options.guest) return "this test has no guest to look into";
    if (part === "userData" && !options.userDataOf) return "this test cannot read user data";
    if (part === "callCount" && !options.callCount)
      return "the calls of this cloud are not counted";
  }
  return undefined;
}
