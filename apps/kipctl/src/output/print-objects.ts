import type { OptionValues } from "@kip/base";
import type { KubeObject } from "@kip/k8s-client";
import { stringify } from "yaml";

/** Forms of output; `table` is the original's word for the plain one. */
export const outputs = ["table", "wide", "json", "yaml", "name"] as const;
export type Output = (typeof outputs)[number];

/** Which form `-o` asks for. @throws {OptionError} `OPTION_INVALID` */
export function outputOf(options: OptionValues): Output {
  return options.choice("output", outputs);
}

/** What objects of a kind are called in JSON and in names. */
export interface ObjectKind {
  readonly apiVersion: string;
  readonly kind: string;
  /** As in `kubectl -o name`, for example `cell.kip.elotl.co`. */
  readonly resource: string;
}

/** Objects for programs: one alone, or several as a List, with the kind and version that lists of the API leave out. */
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
