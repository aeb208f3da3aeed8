import type { OptionValues } from "@kip/base";
import type { KubeObject } from "@kip/k8s-client";
import { stringify } from "yaml";

/** Output formats. `table` is the original's word for the default. */
export const outputs = ["table", "wide", "json", "yaml", "name"] as const;
export type Output = (typeof outputs)[number];

/** The format of `-o`. @throws {OptionError} `OPTION_INVALID` */
export function outputOf(options: OptionValues): Output {
  return options.choice("output", outputs);
}

/** How objects of a kind are named in JSON and by `-o name`. */
export interface ObjectKind {
  readonly apiVersion: string;
  readonly kind: string;
  /** As in `kubectl -o name`, for example `cell.kip.elotl.co`. */
  readonly resource: string;
}

/**
 * Objects as JSON, YAML or names: one alone, or several as a List. Adds the kind and version, which the API's lists leave out.
 */
export function objectsText(
  { apiVersion, kind, resource }: ObjectKind,
  objects: readonly KubeObject[],
  { output, isOne }: { readonly output: "json" | "yaml" | "name"; readonly isOne: boolean },
): string {
  if (output === "name")
    return objects.map(({ metadata }) => `${resource}/${metadata.name}\n`).join("");
  const whole = objects.map((object) => ({ ...object, apiVersion, kind }));
  const document = isOne ? whole[0] : { apiVersion: "v1", kind: "List", items: whole };
  return output === "json" ? `${JSON.stringify(document, undefined, 2)}\n` : stringify(document);
}
