import type { FileKeySelector } from "@kip/k8s-types";
import type { ResolvedPod } from "../pod-provider.ts";
import { expandExcept, expandVariables, ExpansionBudget, refersTo } from "./expand-variables.ts";

/** Addresses of a pod, the main one first. */
export interface LateAddresses {
  readonly podIPs: readonly string[];
  readonly hostIPs: readonly string[];
}

/** A variable of a container. */
export interface BoundVariable {
  readonly name: string;
  /** Empty with one of the others. */
  readonly value: string;
  /** The file that has its value when the container starts. */
  readonly file?: FileKeySelector;
  /** Text with `$(NAME)` references to variables that have their values from files, directly or not. */
  readonly template?: string;
}

/**
 * The whole environment of a container, once the pod has its addresses: late variables, and those
 * that refer to them by `$(VAR)`, get their values. What comes from files is left to the machine that has them.
 *
 * @param budget shared by all texts of the container, or of the pod
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it is larger than any program can be started with
 */
export function bindLateEnv(
  resolved: ResolvedPod,
  container: string,
  addresses: LateAddresses,
  budget: ExpansionBudget = new ExpansionBudget(),
): readonly BoundVariable[] {
  const late = resolved.lateEnv.get(container) ?? new Map<string, string>();
  const templates = resolved.lateTemplates?.get(container) ?? new Map<string, string>();
  const files = resolved.fileEnv?.get(container) ?? new Map<string, FileKeySelector>();
  const bound = new Map<string, string>();
  const open = new Set<string>();
  const isLate = (name: string): boolean => open.has(name);
  return (resolved.env.get(container) ?? []).map(({ name, value }): BoundVariable => {
    const field = late.get(name);
    const template = templates.get(name);
    const file = files.get(name);
    if (file) {
      open.add(name);
      return { name, value: "", file };
    }
    if (template !== undefined && refersTo(template, isLate)) {
      open.add(name);
      const text = expandExcept(template, (other) => bound.get(other), { isLate, budget });
      return { name, value: "", template: text };
    }
    const current =
      field === undefined
        ? template === undefined
          ? value
          : expandVariables(template, bound, budget)
        : addressField(field, addresses);
    bound.set(name, current);
    return { name, value: current };
  });
}

function addressField(field: string, { podIPs, hostIPs }: LateAddresses): string {
  const list = field.startsWith("status.podIP") ? podIPs : hostIPs;
  return field.endsWith("s") ? list.join(",") : (list[0] ?? "");
}
