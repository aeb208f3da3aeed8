import type { ResolvedPod } from "../pod-provider.ts";
import { expandVariables, ExpansionBudget } from "./expand-variables.ts";

/** Addresses of a pod, the main one first. */
export interface LateAddresses {
  readonly podIPs: readonly string[];
  readonly hostIPs: readonly string[];
}

/**
 * The whole environment of a container, once the pod has its addresses: late variables, and those
 * that refer to them by `$(VAR)`, get their values.
 *
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if it is larger than any program can be started with
 */
export function bindLateEnv(
  resolved: ResolvedPod,
  container: string,
  addresses: LateAddresses,
): readonly { readonly name: string; readonly value: string }[] {
  const late = resolved.lateEnv.get(container) ?? new Map<string, string>();
  const templates = resolved.lateTemplates?.get(container) ?? new Map<string, string>();
  const bound = new Map<string, string>();
  const budget = new ExpansionBudget();
  return (resolved.env.get(container) ?? []).map(({ name, value }) => {
    const field = late.get(name);
    const template = templates.get(name);
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
