import { decode } from "@kip/base";

/** One spec, with the names that Kubernetes uses. */
export interface Spec {
  /** All texts on its path, the outermost first: `[sig-node] Probing container should … [Conformance]`. */
  readonly name: string;
  /** For example `network`. Empty if the name has none. */
  readonly sig: string;
  /** Whether it is in [Conformance]. Other specs here are only in [NodeConformance]. */
  readonly isConformance: boolean;
  /** Whether no other spec may run at the same time. */
  readonly isSerial: boolean;
}

/** How a run of one spec ended, from ginkgo's report. */
export interface SpecReport {
  readonly name: string;
  readonly state: string;
  readonly seconds: number;
  /** Why it failed or was skipped. Otherwise empty. */
  readonly message: string;
}

const nullable =
  <T>(inner: decode.Decoder<T>): decode.Decoder<T | null> =>
  (value, path) =>
    value === null ? null : inner(value, path);

/** The fields of `--ginkgo.json-report` that are read. */
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

/** The specs of [Conformance] and [NodeConformance] in the report of a dry run, sorted by name. */
export function parseSpecs(report: string): readonly Spec[] {
  return specNodes(report)
    .map(specOf)
    .filter(({ name }) => /\[(Node)?Conformance\]/.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The reports of a run, except for specs that were not chosen. A failure before the first spec has the name of its node. */
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

/** A pattern for `--ginkgo.focus` that matches one spec. Operators of RE2 are quoted. */
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
