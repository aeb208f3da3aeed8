import { expandReferences, referencesIn } from "@kip/base";
import { absent, unresolved } from "../references/reference.ts";

/**
 * Limit for one container's expanded environment and arguments, characters. It is more than a program on Linux can be started
 * with. Without it, a few variables that refer to each other several times could exhaust the memory.
 */
const maxExpanded = 8 * 1024 * 1024;

/** Counts the text in a container's environment, or in all texts of a pod. */
export class ExpansionBudget {
  #remaining = maxExpanded;

  /** @throws {VirtualKubeletError} code `VK_UNRESOLVED` if the text exceeds the remaining budget */
  take(text: string): string {
    this.#remaining -= text.length;
    if (this.#remaining < 0)
      throw unresolved(`the environment is larger than ${maxExpanded} bytes when it is expanded`);
    return text;
  }
}

/** Returns a variable's value, or undefined if it does not exist. */
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
 * Expands known variables and leaves references to late ones. Escapes the rest, so that a second expansion only changes late
 * variables.
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

/** Escapes a text so that its expansion is the text itself. */
export function escaped(text: string): string {
  return text.replaceAll("$", "$$$$");
}

/** Whether a text refers to one of the variables. */
export function refersTo(text: string, isWanted: (variable: string) => boolean): boolean {
  return referencesIn(text).some((name) => name !== "" && isWanted(name));
}

/**
 * Expands a `subPathExpr`. Unlike elsewhere, every variable must exist and have a value. Otherwise the path would refer to
 * another part of the volume, or to all of it.
 *
 * @param budget shared by all texts of the container or pod
 * @param isLate whether a variable's value is known only later. If the text refers to one, the result is a text like that of
 * {@link expandExcept}. @default none is
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if a variable has no value, or if the result exceeds the budget
 */
export function expandSubPath(
  text: string,
  variables: ReadonlyMap<string, string>,
  budget: ExpansionBudget = new ExpansionBudget(),
  isLate: (variable: string) => boolean = () => false,
): string {
  const lookUp = (name: string): string => {
    const value = variables.get(name) ?? "";
    if (value === "") throw absent(`cannot expand subPathExpr "${text}": ${name} has no value`);
    return value;
  };
  if (refersTo(text, isLate)) return expandExcept(text, lookUp, { isLate, budget });
  return expandReferences(text, (name) => budget.take(lookUp(name)));
}
