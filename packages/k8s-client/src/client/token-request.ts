import type { ApiClient } from "./api-client.ts";
import { paths } from "./paths.ts";

/** Options of {@link requestToken}. */
export interface TokenRequestOptions {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** @default the API server's own audience */
  readonly audiences?: readonly string[] | undefined;
  /** Seconds, 600 or more. @default 3600 */
  readonly expirationSeconds?: number;
  /** The pod that the token is bound to. It becomes invalid when the pod is deleted. */
  readonly pod?: { readonly name: string; readonly uid: string };
  readonly signal?: AbortSignal;
}

/** A token and its expiry. */
export interface ServiceAccountToken {
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

interface TokenAnswer {
  readonly status: { readonly token: string; readonly expirationTimestamp: string };
}

/**
 * Requests a service account token from the API server (authentication.k8s.io/v1 TokenRequest).
 *
 * @throws {K8sError} code `K8S_NOT_FOUND` if the service account does not exist, and the client's other errors
 */
export async function requestToken(
  client: ApiClient,
  options: TokenRequestOptions,
): Promise<ServiceAccountToken> {
  const { namespace, serviceAccount, pod } = options;
  const answer = await client.create<TokenAnswer>(
    paths.serviceAccounts(namespace, serviceAccount, "token"),
    {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        audiences: options.audiences ?? [],
        expirationSeconds: options.expirationSeconds ?? 3600,
        boundObjectRef: pod && { apiVersion: "v1", kind: "Pod", ...pod },
      },
    },
    options.signal ? { signal: options.signal } : {},
  );
  return {
    token: answer.status.token,
    expiresAt: Date.parse(answer.status.expirationTimestamp),
  };
}
