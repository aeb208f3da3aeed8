import { K8sError, type ApiClient } from "@kip/k8s-client";

/**
 * Whether the API server is Kubernetes 1.`minor` or newer. False if it hides its version.
 *
 * @throws {K8sError} if the API server is unreachable
 */
export async function isServerSince(
  client: ApiClient,
  minor: number,
  signal?: AbortSignal,
): Promise<boolean> {
  try {
    const version = await client.get<{ readonly major?: string; readonly minor?: string }>(
      "/version",
      { signal },
    );
    const [major, own] = [version.major, version.minor].map((text) => parseInt(text ?? "0", 10));
    return major === 1 && (own ?? 0) >= minor;
  } catch (error) {
    if (K8sError.is(error, "K8S_FORBIDDEN", "K8S_NOT_FOUND")) return false;
    throw error;
  }
}
