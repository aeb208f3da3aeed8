import type { ApiClient } from "@kip/k8s-client";
import { isServerSince } from "../server-version.ts";

/** Features of the kubelet API that an API server looks for before it relies on them. */
export const kubeletApiFeatures = ["ExtendWebSocketsToKubelet"] as const;

/** The first minor version whose API server reads `status.declaredFeatures`; older ones refuse the field. */
const firstMinor = 36;

/**
 * The features to declare in the node's status: all of them, or none for an API server that does not know the
 * field or does not show its version.
 *
 * @see https://github.com/kubernetes/enhancements/issues/5328
 */
export async function declarable(
  client: ApiClient,
  features: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (features.length === 0) return [];
  return (await isServerSince(client, firstMinor, signal)) ? features : [];
}
