/**
 * The result for a connection. `absent`: the source or the destination does not exist. `partly`: it depends on the chosen endpoint. `unknown`:
 * something that matters could not be read. `described`: the question was not about a connection.
 */
export type Outcome =
  "described" | "passes" | "refused" | "dropped" | "absent" | "partly" | "unknown";

/** An outcome, and sentences with the reasons. */
export interface Finding {
  readonly outcome: Outcome;
  readonly sentences: readonly string[];
}

/** Creates a finding. */
export function finding(outcome: Outcome, ...sentences: readonly string[]): Finding {
  return { outcome, sentences };
}

/** A copy of a finding with other sentences before its own. */
export function after(sentences: readonly string[], found: Finding): Finding {
  return { outcome: found.outcome, sentences: [...sentences, ...found.sentences] };
}

/** Combines the findings of alternatives: one outcome for all, and the sentences without duplicates. */
export function together(findings: readonly Finding[]): Finding {
  const outcomes = new Set(findings.map(({ outcome }) => outcome));
  const [first = "unknown"] = outcomes;
  const mixed = outcomes.has("unknown") ? "unknown" : outcomes.has("passes") ? "partly" : first;
  return {
    outcome: outcomes.size <= 1 ? first : mixed,
    sentences: [...new Set(findings.flatMap(({ sentences }) => sentences))],
  };
}
