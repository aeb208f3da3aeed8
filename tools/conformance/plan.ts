import { notAskable } from "./not-askable.ts";
import type { Result } from "./results.ts";
import type { Spec } from "./specs.ts";

/** Which specs a run is about. */
export interface Choice {
  /** Texts of which a name has at least one; all if there is none. */
  readonly focus: readonly string[];
  /** SIGs, without `sig-`; all if there is none. */
  readonly sigs: readonly string[];
  /** Whether those that failed before run again. */
  readonly retriesFailed: boolean;
  /** How many run at most. */
  readonly count: number;
}

/** What there is to do. */
export interface Plan {
  /** Beside each other. */
  readonly parallel: readonly Spec[];
  /** One at a time, behind the others. */
  readonly serial: readonly Spec[];
  /** How many of the chosen ones have a result already. */
  readonly finished: number;
}

/** Chooses specs: those without a result, unless failed ones are to run again; never those that cannot be asked. */
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
