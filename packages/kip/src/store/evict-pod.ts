import { defined } from "@kip/base";
import { isNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { PodRef } from "../state/cell-state.ts";
import { readPod } from "./pod-in-api.ts";

/** How {@link evictPod} evicts. */
export interface EvictPodOptions {
  /** 0 or more. @default the pod's own */
  readonly graceSeconds?: number | undefined;
  /** Sees whether a pod that is not found is gone. @default the client that asks */
  readonly reader?: ApiClient | undefined;
}

/**
 * Asks for the eviction of a pod. One that is gone counts as evicted; evicting it twice changes nothing.
 *
 * @throws {K8sError} `K8S_TOO_MANY_REQUESTS` if a PodDisruptionBudget forbids it now
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
    // To a node, the API server also says "not found" of a pod that its admission (NodeRestriction) does not know yet.
    if (!isNotFound(error) || (await readPod(reader, podRef))) throw error;
  }
}
