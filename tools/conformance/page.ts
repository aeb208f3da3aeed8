import { notAskable } from "./not-askable.ts";
import type { Result } from "./results.ts";
import type { Spec } from "./specs.ts";

/** Input for the page. */
export interface PageFacts {
  readonly specs: readonly Spec[];
  readonly results: ReadonlyMap<string, Result>;
  /** For example `v1.34.10`. */
  readonly kubernetes: string;
  /** Known reasons of failures, by a part of the spec's name. */
  readonly causes: readonly { readonly spec: string; readonly reason: string }[];
}

type Kind = "passed" | "failed" | "not askable" | "not run";
const kinds: readonly Kind[] = ["passed", "failed", "not askable", "not run"];

/** `docs/conformance.md`. */
export function conformancePage(facts: PageFacts): string {
  const rows = facts.specs.map((spec) => ({ spec, ...verdictOf(spec, facts) }));
  const count = (kind: Kind, among = rows): number =>
    among.filter((row) => row.kind === kind).length;
  const sigs = Map.groupBy(rows, ({ spec }) => spec.sig);
  const line = (name: string, among: typeof rows): string =>
    `| ${[name, among.length, ...kinds.map((kind) => count(kind, among))].join(" | ")} |`;
  const bySize = [...sigs].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
  const asked = count("passed") + count("failed");
  const others = rows
    .filter(({ kind }) => kind === "failed" || kind === "not askable")
    .map(
      ({ spec, kind, reason }) =>
        `| ${cell(`sig-${spec.sig}`)} | ${cell(shortName(spec))} | ${kind} | ${cell(reason)} |`,
    );
  return [
    head(facts.kubernetes),
    `Of ${rows.length} specs ${asked} were asked, and ${count("passed")} passed.`,
    "",
    `| SIG | specs | ${kinds.join(" | ")} |`,
    "| --- | --- | --- | --- | --- | --- |",
    ...bySize.map(([sig, among]) => line(`sig-${sig}`, among)),
    line("all", rows),
    "",
    "## Specs that did not pass",
    "",
    "| SIG | spec | result | reason |",
    "| --- | --- | --- | --- |",
    ...others,
    "",
  ].join("\n");
}

function verdictOf(
  { name }: Spec,
  { results, causes }: PageFacts,
): { readonly kind: Kind; readonly reason: string } {
  const remark = notAskable.find(({ spec }) => name.includes(spec));
  if (remark) return { kind: "not askable", reason: remark.reason };
  const result = results.get(name);
  if (!result) return { kind: "not run", reason: "" };
  if (result.outcome === "passed") return { kind: "passed", reason: "" };
  if (result.outcome === "skipped") return { kind: "not askable", reason: result.reason };
  const cause = causes.find(({ spec }) => name.includes(spec))?.reason ?? `\`${result.reason}\``;
  return { kind: "failed", reason: cause };
}

/** The name without its SIG and the names of its sets. */
function shortName({ name }: Spec): string {
  return name.replace(/\[sig-[a-z-]+\] |\s*\[(Node)?Conformance\]/g, "").trim();
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

function head(kubernetes: string): string {
  return `# Conformance

Written by \`npm run test:conformance\`; do not edit.

Kubernetes' own specs of the sets [Conformance] and [NodeConformance], ${kubernetes}, against the virtual node of \`kip up\`: each pod of
a spec is a machine. Nothing that a spec checks is changed. "Not askable" are specs that want something else than one node of machines.
"Not run" is what a later run has still to do.
`;
}
