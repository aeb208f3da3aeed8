import { defined } from "@kip/base";
import { ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { PodRef } from "../state/cell-state.ts";

/**
 * Asks for the eviction of a pod. One that is gone counts as evicted; evicting it twice changes nothing.
 *
 * @param graceSeconds 0 or more @default the pod's own
 * @throws {K8sError} `K8S_TOO_MANY_REQUESTS` if a PodDisruptionBudget forbids it now
 */
export async function evictPod(
  client: ApiClient,
  { namespace, name, uid }: PodRef,
  graceSeconds?: number,
): Promise<void> {
  const eviction = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name, namespace },
    deleteOptions: defined({ gracePeriodSeconds: graceSeconds, preconditions: { uid } }),
  };
  await ignoreNotFound(client.create(paths.pods(namespace, name, "eviction"), eviction));
}
