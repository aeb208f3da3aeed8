import { notAskable } from "./not-askable.ts";
import type { Result } from "./results.ts";
import type { Spec } from "./specs.ts";

/** Which specs to run. */
export interface Choice {
  /** The name must contain at least one of these texts. Empty: all. */
  readonly focus: readonly string[];
  /** SIGs without `sig-`. Empty: all. */
  readonly sigs: readonly string[];
  /** Whether to run specs again that failed earlier. */
  readonly retriesFailed: boolean;
  /** Maximum number of specs to run. */
  readonly count: number;
}

/** The specs to run. */
export interface Plan {
  /** Run in parallel. */
  readonly parallel: readonly Spec[];
  /** Run one at a time, after the others. */
  readonly serial: readonly Spec[];
  /** How many of the chosen specs already have a result. */
  readonly finished: number;
}

/** Chooses specs without a result, and failed ones if they should run again. Never chooses specs that cannot run here. */
export function planRun(
  specs: readonly Spec[],
  results: ReadonlyMap<string, Result>,
  choice: Choice,
): Plan {
  const chosen = specs.filter((spec) => isChosen(spec, choice));
  const open = chosen.filter(({ name }) => {
    const result = results.get(name);
    if (!result) return true;
    return choice.retriesFailed && (result.outcome === "failed" || result.outcome === "timed out");
  });
  const now = [...open.filter((spec) => !spec.isSerial), ...open.filter((spec) => spec.isSerial)];
  const due = now.slice(0, choice.count);
  return {
    parallel: due.filter((spec) => !spec.isSerial),
    serial: due.filter((spec) => spec.isSerial),
    finished: chosen.length - open.length,
  };
}

function isChosen({ name, sig }: Spec, { focus, sigs }: Choice): boolean {
  if (notAskable.some((each) => name.includes(each.spec))) return false;
  if (sigs.length > 0 && !sigs.includes(sig)) return false;
  return focus.length === 0 || focus.some((text) => name.includes(text));
}
