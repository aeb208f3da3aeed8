/**
 * What becomes of a connection. `absent`: there is nothing that could connect, or nothing to connect to; `partly`: it depends on
 * the endpoint that is chosen; `unknown`: something decides that could not be read; `described`: no connection was asked for.
 */
export type Outcome =
  "described" | "passes" | "refused" | "dropped" | "absent" | "partly" | "unknown";

/** An outcome, and the sentences that say why. */
export interface Finding {
  readonly outcome: Outcome;
  readonly sentences: readonly string[];
}

/** A finding with sentences. */
export function finding(outcome: Outcome, ...sentences: readonly string[]): Finding {
  return { outcome, sentences };
}

/** The same finding, with sentences before its own. */
export function after(sentences: readonly string[], found: Finding): Finding {
  return { outcome: found.outcome, sentences: [...sentences, ...found.sentences] };
}

/** What several findings of alternatives are together: each sentence once, and the outcome that all have. */
export function together(findings: readonly Finding[]): Finding {
  const outcomes = new Set(findings.map(({ outcome }) => outcome));
  const [first = "unknown"] = outcomes;
  const mixed = outcomes.has("unknown") ? "unknown" : outcomes.has("passes") ? "partly" : first;
  return {
    outcome: outcomes.size <= 1 ? first : mixed,
    sentences: [...new Set(findings.flatMap(({ sentences }) => sentences))],
  };
}
