import type { Pod } from "@kip/k8s-types";

/** The pod's restart policy. @default "Always", as in the API */
export function restartPolicy({ spec }: Pick<Pod, "spec">): "Always" | "OnFailure" | "Never" {
  const policy = spec.restartPolicy;
  return policy === "Never" || policy === "OnFailure" ? policy : "Always";
}
