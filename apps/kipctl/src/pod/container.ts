import type { OptionValues } from "@kip/base";
import type { Pod } from "@kip/k8s-types";

/** The container of `-c` or of the original's `-u`. */
export function containerOf(options: OptionValues): string | undefined {
  return options.text("container") ?? options.text("unit");
}

/** The container that the pod's annotation names, if there is one. Otherwise the first container. */
export function defaultContainer({ spec, metadata }: Pod): string | undefined {
  const named = metadata.annotations?.["kubectl.kubernetes.io/default-container"];
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  return (all.find(({ name }) => name === named) ?? spec.containers[0])?.name;
}
