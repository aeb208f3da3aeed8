import type { ApiClient } from "./api-client.ts";

/** What a service account token is for. */
export interface TokenRequestOptions {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** @default the API server's own audience */
  readonly audiences?: readonly string[];
  /** Seconds, 600 or more. @default 3600 */
  readonly expirationSeconds?: number;
  /** The token dies with this pod. */
  readonly pod?: { readonly name: string; readonly uid: string };
  readonly signal?: AbortSignal;
}

/** A token and its end. */
export interface ServiceAccountToken {
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Asks the API server for a service account token (authentication.k8s.io/v1 TokenRequest). */
export function requestToken(
  client: ApiClient,
  options: TokenRequestOptions,
): Promise<ServiceAccountToken> {
  void client;
  void options;
  throw new Error("Not built yet");
}
