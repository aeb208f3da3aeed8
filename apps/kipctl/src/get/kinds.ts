import { nearest, OptionError } from "@kip/base";
import { KipctlError } from "../errors.ts";
import type { ObjectKind } from "../output/print-objects.ts";

/** Kinds of objects that kipctl shows. The original's nodes are cells here. */
export type KindName = "cells" | "pods" | "nodes" | "events" | "metrics";

const aliases: Readonly<Record<KindName, readonly string[]>> = {
  cells: ["cells", "cell", "cl", "cells.kip.elotl.co"],
  pods: ["pods", "pod", "po"],
  nodes: ["nodes", "node", "no"],
  events: ["events", "event", "ev"],
  metrics: ["metrics", "metric"],
};

/** The names that completion offers. */
export const kindNames = Object.keys(aliases) as readonly KindName[]; // the keys of a literal

/** Kinds that the original's help named, but its server did not have. */
const replaced: ReadonlyMap<string, string> = new Map([
  ["services", "services"],
  ["service", "services"],
  ["svc", "services"],
  ["secrets", "secrets"],
  ["secret", "secrets"],
]);

/** How objects of each kind are named. */
export const objectKinds: Readonly<Record<Exclude<KindName, "metrics">, ObjectKind>> = {
  cells: { apiVersion: "kip.elotl.co/v1beta1", kind: "Cell", resource: "cell.kip.elotl.co" },
  nodes: { apiVersion: "kip.elotl.co/v1beta1", kind: "Cell", resource: "cell.kip.elotl.co" },
  pods: { apiVersion: "v1", kind: "Pod", resource: "pod" },
  events: { apiVersion: "v1", kind: "Event", resource: "event" },
};

/**
 * The kind for a word.
 *
 * @throws {KipctlError} `COMMAND_REPLACED` for kinds that kubectl shows; {@link OptionError} `OPTION_UNKNOWN`
 */
export function kindOf(word: string): KindName {
  const found = kindNames.find((name) => aliases[name].includes(word.toLowerCase()));
  if (found) return found;
  const other = replaced.get(word.toLowerCase());
  if (other !== undefined)
    throw new KipctlError("COMMAND_REPLACED", `Cannot show ${other}: kip has none of its own`, {
      remedy: `The cluster's are shown by kubectl get ${other}`,
    });
  const near = nearest(word, Object.values(aliases).flat());
  throw new OptionError("OPTION_UNKNOWN", `Cannot show "${word}": there is no such kind`, {
    remedy: near === undefined ? `The kinds are ${kindNames.join(", ")}` : `Did you mean ${near}?`,
  });
}
