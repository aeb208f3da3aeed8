import { defined } from "@kip/base";
import { isNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { PodRef } from "../state/cell-state.ts";
import { readPod } from "./pod-in-api.ts";

/** How {@link evictPod} evicts. */
export interface EvictPodOptions {
  /** 0 or more. @default the pod's own */
  readonly graceSeconds?: number | undefined;
  /** Client with which to check whether a pod that was not found is gone. @default the evicting client */
  readonly reader?: ApiClient | undefined;
}

/**
 * Requests the eviction of a pod. A pod that is gone counts as evicted. Repeating it has no effect.
 *
 * @throws {K8sError} `K8S_TOO_MANY_REQUESTS` if a PodDisruptionBudget currently forbids it
 */
export async function evictPod(
  client: ApiClient,
  podRef: PodRef,
  { graceSeconds, reader = client }: EvictPodOptions = {},
): Promise<void> {
  const { namespace, name, uid } = podRef;
  const eviction = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name, namespace },
    deleteOptions: defined({ gracePeriodSeconds: graceSeconds, preconditions: { uid } }),
  };
  try {
    await client.create(paths.pods(namespace, name, "eviction"), eviction);
  } catch (error) {
    // A node also gets "not found" for a pod that the API server's admission (NodeRestriction) does not know yet.
    if (!isNotFound(error) || (await readPod(reader, podRef))) throw error;
  }
}
