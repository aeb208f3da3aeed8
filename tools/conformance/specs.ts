import { decode } from "@kip/base";

/** One spec, as Kubernetes names it. */
export interface Spec {
  /** All texts that lead to it, from the outermost: `[sig-node] Probing container should … [Conformance]`. */
  readonly name: string;
  /** For example `network`; empty if the name has none. */
  readonly sig: string;
  /** Whether it is a spec of [Conformance]; the others here are of [NodeConformance] alone. */
  readonly isConformance: boolean;
  /** Whether it must run while no other does. */
  readonly isSerial: boolean;
}

/** How a run of one spec ended, as ginkgo's report has it. */
export interface SpecReport {
  readonly name: string;
  readonly state: string;
  readonly seconds: number;
  /** Why it failed or was skipped; empty if it did neither. */
  readonly message: string;
}

const nullable =
  <T>(inner: decode.Decoder<T>): decode.Decoder<T | null> =>
  (value, path) =>
    value === null ? null : inner(value, path);

/** What is read of `--ginkgo.json-report`. */
const decodeReports = decode.list(
  decode.object({
    SpecReports: nullable(
      decode.list(
        decode.object({
          ContainerHierarchyTexts: nullable(decode.list(decode.string)),
          LeafNodeType: decode.string,
          LeafNodeText: decode.string,
          State: decode.string,
          IsSerial: decode.optional(decode.boolean),
          RunTime: decode.number,
          Failure: decode.optional(decode.object({ Message: decode.optional(decode.string) })),
        }),
      ),
    ),
  }),
);

type Reported = NonNullable<decode.Decoded<typeof decodeReports>[number]["SpecReports"]>[number];

/** The specs of [Conformance] and [NodeConformance] in the report of a dry run, by name. */
export function parseSpecs(report: string): readonly Spec[] {
  return specNodes(report)
    .map(specOf)
    .filter(({ name }) => /\[(Node)?Conformance\]/.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What a run reports, but for the specs that were not chosen. Failures before the first spec have the name of their node. */
export function parseReport(report: string): readonly SpecReport[] {
  return decodeReports(JSON.parse(report), "report")
    .flatMap(({ SpecReports: found }) => found ?? [])
    .map((found) => ({
      name: nameOf(found),
      state: found.State,
      seconds: found.RunTime / 1e9,
      message: found.Failure?.Message ?? "",
    }))
    .filter(({ state, message }) => state !== "skipped" || message !== "");
}

/** A pattern for `--ginkgo.focus` that chooses one spec: what RE2 would read as an operator is quoted. */
export function focusOf(name: string): string {
  return ` ${name.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&")}$`;
}

function specNodes(report: string): readonly Reported[] {
  return decodeReports(JSON.parse(report), "report")
    .flatMap(({ SpecReports: found }) => found ?? [])
    .filter(({ LeafNodeType }) => LeafNodeType === "It");
}

function specOf(found: Reported): Spec {
  const name = nameOf(found);
  return {
    name,
    sig: /\[sig-([a-z-]+)\]/.exec(name)?.[1] ?? "",
    isConformance: name.includes("[Conformance]"),
    isSerial: found.IsSerial === true || name.includes("[Serial]"),
  };
}

function nameOf({ ContainerHierarchyTexts, LeafNodeType, LeafNodeText }: Reported): string {
  if (LeafNodeType !== "It") return LeafNodeType;
  return [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(" ");
}
