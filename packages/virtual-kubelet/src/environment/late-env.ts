import type { FileKeySelector } from "@kip/k8s-types";
import type { ResolvedPod } from "../pod-provider.ts";
import { expandExcept, expandVariables, ExpansionBudget, refersTo } from "./expand-variables.ts";

/** Addresses of a pod, the primary one first. */
export interface LateAddresses {
  readonly podIPs: readonly string[];
  readonly hostIPs: readonly string[];
}

/** A variable of a container. */
export interface BoundVariable {
  readonly name: string;
  /** Empty if one of the other fields is set. */
  readonly value: string;
  /** The file with its value when the container starts. */
  readonly file?: FileKeySelector;
  /** Text with `$(NAME)` references to variables that get their values from files, directly or indirectly. */
  readonly template?: string;
}

/**
 * A container's complete environment, once the pod has its addresses. Sets late variables and those that refer to them.
 * Variables from files are left to the machine that has the files; if an optional one has no value, an entry of the same name
 * before it holds.
 *
 * @param budget shared by all texts of the container or pod
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it exceeds what any program can be started with
 */
export function bindLateEnv(
  resolved: ResolvedPod,
  container: string,
  addresses: LateAddresses,
  budget: ExpansionBudget = new ExpansionBudget(),
): readonly BoundVariable[] {
  const late = resolved.lateEnv.get(container) ?? new Map<string, string>();
  const templates = resolved.lateTemplates?.get(container) ?? new Map<string, string>();
  const files = resolved.fileEnv?.get(container) ?? new Map<string, readonly FileKeySelector[]>();
  const bound = new Map<string, string>();
  const open = new Set<string>();
  const isLate = (name: string): boolean => open.has(name);
  const bind = (
    { name, value }: Pick<BoundVariable, "name" | "value">,
    index: number,
    env: readonly Pick<BoundVariable, "name">[],
  ): BoundVariable | readonly BoundVariable[] => {
    const field = late.get(name);
    const template = templates.get(name);
    const sources = files.get(name);
    // Before it may be what the variable is if the files have no value.
    if (sources && env[index + 1]?.name !== name) {
      open.add(name);
      return sources.map((file) => ({ name, value: "", file }));
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
  };
  return (resolved.env.get(container) ?? []).flatMap(bind);
}

function addressField(field: string, { podIPs, hostIPs }: LateAddresses): string {
  const list = field.startsWith("status.podIP") ? podIPs : hostIPs;
  return field.endsWith("s") ? list.join(",") : (list[0] ?? "");
}
