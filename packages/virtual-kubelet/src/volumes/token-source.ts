import { errorText, type Clock } from "@kip/base";
import { isNotFound, requestToken, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { absent, copyBytes } from "../references/reference.ts";

/** Audience and lifetime of a token. */
export interface TokenOptions {
  /** @default the API server's own */
  readonly audience?: string | undefined;
  /** Seconds. */
  readonly expirationSeconds: number;
}

/** A token, and when to replace it. */
export interface FreshToken {
  /** The token's bytes, as in the volume. */
  readonly data: Uint8Array;
  /** Milliseconds since the epoch: after 80 % of the token's lifetime or after a day, as in the kubelet. */
  readonly refreshAt: number;
}

/** Provides service account tokens bound to one pod. */
export interface TokenSource {
  /**
   * @throws {VirtualKubeletError} `VK_UNRESOLVED` if the service account does not exist
   * @throws {K8sError} if the API server gives no token for another reason, and the last one has expired
   */
  token(options: TokenOptions): Promise<FreshToken>;
}

const lifeShare = 0.8;
const oldestMs = 24 * 60 * 60 * 1000;

/** Creates a source for one pod. It only requests a token when one is due. */
export function createTokenSource(client: ApiClient, pod: Pod, clock: Clock): TokenSource {
  const { namespace, name, uid } = pod.metadata;
  const serviceAccount = pod.spec.serviceAccountName ?? "default";
  const tokens = new Map<string, FreshToken & { readonly expiresAt: number }>();
  const request = async ({ audience, expirationSeconds }: TokenOptions): Promise<FreshToken> => {
    const now = clock.now();
    const { token, expiresAt } = await requestToken(client, {
      namespace,
      serviceAccount,
      expirationSeconds,
      pod: { name, uid },
      audiences: audience === undefined ? undefined : [audience],
    });
    const refreshAt = now + Math.min(oldestMs, (expiresAt - now) * lifeShare);
    const fresh = { data: copyBytes(token), refreshAt, expiresAt };
    tokens.set(keyOf({ audience, expirationSeconds }), fresh);
    return fresh;
  };
  return {
    token: async (options) => {
      const known = tokens.get(keyOf(options));
      if (known && known.refreshAt > clock.now()) return known;
      try {
        return await request(options);
      } catch (error) {
        // As in the kubelet, other changes of the pod do not wait for a token. It stays due, so the next sweep requests it
        // again.
        if (known && known.expiresAt > clock.now()) return known;
        throw isNotFound(error) ? absent(errorText(error)) : error;
      }
    },
  };
}

function keyOf({ audience = "", expirationSeconds }: TokenOptions): string {
  return `${expirationSeconds} ${audience}`;
}
