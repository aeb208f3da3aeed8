import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";

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
  try {
    const version = await client.get<{ readonly major?: string; readonly minor?: string }>(
      "/version",
      { signal },
    );
    const [major, minor] = [version.major, version.minor].map((text) => parseInt(text ?? "0", 10));
    return major === 1 && (minor ?? 0) >= firstMinor ? features : [];
  } catch (error) {
    if (K8sError.is(error, "K8S_FORBIDDEN", "K8S_NOT_FOUND")) return [];
    throw error;
  }
}
