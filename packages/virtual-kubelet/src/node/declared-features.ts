import type { ApiClient } from "@kip/k8s-client";
import { isServerSince } from "../server-version.ts";

/** Features of the kubelet API that an API server checks before it uses them. */
export const kubeletApiFeatures = ["ExtendWebSocketsToKubelet"] as const;

/** The first minor version with `status.declaredFeatures`. Older API servers refuse the field. */
const firstMinor = 36;

/**
 * The features to declare in the node's status: all of them, or none if the API server does not know the field or hides its
 * version.
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
