import { isNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { hasEnded, type PodRef } from "../state/cell-state.ts";

/** A pod in the API: "ended" means a terminal phase, "gone" also that another pod has its name. */
export type PodInApi = "open" | "ended" | "gone";

/** Reads the state of a pod from the API, not from a cache. @throws like {@link ApiClient.get} */
export async function readPodInApi(client: Pick<ApiClient, "get">, ref: PodRef): Promise<PodInApi> {
  const pod = await readPod(client, ref);
  if (!pod) return "gone";
  return hasEnded(pod.status) ? "ended" : "open";
}

/**
 * Reads the pod with this UID from the API, not from a cache. Undefined if there is none. @throws like {@link ApiClient.get}
 */
export async function readPod(
  client: Pick<ApiClient, "get">,
  { namespace, name, uid }: PodRef,
): Promise<Pod | undefined> {
  try {
    const pod = await client.get<Pod>(paths.pods(namespace, name));
    return pod.metadata.uid === uid ? pod : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
