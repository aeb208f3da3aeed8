import { expandReferences, referencesIn } from "@kip/base";
import { unresolved } from "../references/reference.ts";

/**
 * Limit of one container's expanded environment and arguments, characters: more than Linux starts a program with.
 * A few variables that refer to each other several times would exceed any memory.
 */
const maxExpanded = 8 * 1024 * 1024;

/** Counts the text that is put into a container's environment, or into all texts of a pod. */
export class ExpansionBudget {
  #remaining = maxExpanded;

  /** @throws {VirtualKubeletError} code `VK_UNRESOLVED` if the text exceeds what is left */
  take(text: string): string {
    this.#remaining -= text.length;
    if (this.#remaining < 0)
      throw unresolved(`the environment is larger than ${maxExpanded} bytes when it is expanded`);
    return text;
  }
}

/** The value of a variable; undefined if there is none of this name. */
export type VariableLookup = (name: string) => string | undefined;

/**
 * Expands `$(NAME)` references as Kubernetes does for `env`, `command` and `args`:
 * `$$` is a dollar sign, a reference to an unknown variable stays as it is, nothing is expanded twice.
 *
 * @param text what may hold references
 * @param variables by name, or what looks a name up
 * @param budget shared by all texts of the container
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if the result exceeds the budget
 * @see https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 * @example
 * ```ts
 * import { expandVariables } from "@kip/virtual-kubelet/environment";
 *
 * const variables = new Map([["HOST", "db"]]);
 * assert.equal(expandVariables("$(HOST):$(PORT) costs $$1", variables), "db:$(PORT) costs $1");
 * ```
 */
export function expandVariables(
  text: string,
  variables: ReadonlyMap<string, string> | VariableLookup,
  budget: ExpansionBudget = new ExpansionBudget(),
): string {
  const lookUp: VariableLookup =
    typeof variables === "function" ? variables : (name) => variables.get(name);
  return expandReferences(text, (name, whole) => budget.take(lookUp(name) ?? whole));
}

/**
 * Expands what is known and leaves references to late variables; the rest is escaped, so that a second expansion
 * touches late variables only.
 */
export function expandExcept(
  text: string,
  lookUp: VariableLookup,
  { isLate, budget }: { isLate: (variable: string) => boolean; budget: ExpansionBudget },
): string {
  return text.replace(
    /\$\$|\$\(([^)]*)(\)|$)|\$/g,
    (whole, name: string | undefined, end: string | undefined) => {
      if (name === undefined || end === "") return escaped(whole.replaceAll("$$", "$"));
      if (isLate(name)) return whole;
      return budget.take(escaped(lookUp(name) ?? whole));
    },
  );
}

/** A text whose expansion it is. */
export function escaped(text: string): string {
  return text.replaceAll("$", "$$$$");
}

/** Whether a text refers to one of the variables. */
export function refersTo(text: string, isWanted: (variable: string) => boolean): boolean {
  return referencesIn(text).some((name) => name !== "" && isWanted(name));
}

/**
 * Expands a `subPathExpr`. Unlike elsewhere every variable must have a value: without one the path
 * would lead to another part of the volume, or to all of it.
 *
 * @param budget shared by all texts of the container, or of the pod
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if one has none, or if the result exceeds the budget
 */
export function expandSubPath(
  text: string,
  variables: ReadonlyMap<string, string>,
  budget: ExpansionBudget = new ExpansionBudget(),
): string {
  return expandReferences(text, (name) => {
    const value = variables.get(name) ?? "";
    if (value === "") throw unresolved(`cannot expand subPathExpr "${text}": ${name} has no value`);
    return budget.take(value);
  });
}
