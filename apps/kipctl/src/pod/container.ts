import type { OptionValues } from "@kip/base";
import type { Pod } from "@kip/k8s-types";

/** The container that `-c` or the original's `-u` names. */
export function containerOf(options: OptionValues): string | undefined {
  return options.text("container") ?? options.text("unit");
}

/** The container that a pod's annotation names, if it has one of that name; else its first. */
export function defaultContainer({ spec, metadata }: Pod): string | undefined {
  const named = metadata.annotations?.["kubectl.kubernetes.io/default-container"];
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  return (all.find(({ name }) => name === named) ?? spec.containers[0])?.name;
}
