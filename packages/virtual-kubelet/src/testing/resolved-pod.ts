import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "../pod-provider.ts";

/** A pod in the form for a provider. It has no references, except for `parts`. */
export function resolvedWith(pod: Pod, parts: Partial<Omit<ResolvedPod, "pod">> = {}): ResolvedPod {
  const defaults = { env: new Map(), lateEnv: new Map(), files: new Map(), pullSecrets: [] };
  return { pod, ...defaults, ...parts };
}
