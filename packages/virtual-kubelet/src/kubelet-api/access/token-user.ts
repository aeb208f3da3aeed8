import { createHmac, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { decode, defined, type Clock } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { HttpRefusal } from "../transport/answer.ts";
import { bearerSubprotocol, offeredProtocols } from "../websocket/upgrade.ts";
import { createReview } from "./review-call.ts";
import type { KubeletAuthenticate, KubeletUser } from "./user.ts";
import { VerdictCache } from "./verdict-cache.ts";

const { boolean, list, map, object, optional, string } = decode;

/** How bearer tokens are checked. */
export interface TokenReviewOptions {
  readonly client: ApiClient;
  /**
   * A token must be meant for one of these.
   * @default those of the API server itself
   */
  readonly audiences?: readonly string[] | undefined;
  /** Milliseconds a verdict is kept, good or bad. @default 2 minutes */
  readonly cacheMs?: number | undefined;
  readonly clock: Clock;
}

/** Verdicts kept, and reviews under way at once. */
const cacheEntries = 1000;
const maxReviews = 50;
const defaultCacheMs = 120_000;
const path = "/apis/authentication.k8s.io/v1/tokenreviews";

const decodeReview = object({
  status: optional(
    object({
      authenticated: optional(boolean),
      audiences: optional(list(string)),
      user: optional(
        object({
          username: optional(string),
          uid: optional(string),
          groups: optional(list(string)),
          extra: optional(map(list(string))),
        }),
      ),
    }),
  ),
});

/** The user of a bearer token, by a TokenReview: undefined without a valid token. */
export function tokenUser(options: TokenReviewOptions): KubeletAuthenticate {
  const { clock, cacheMs: keepMs = defaultCacheMs, audiences = [] } = options;
  const bounds = { keepMs, entries: cacheEntries };
  const verdicts = new VerdictCache<KubeletUser | undefined>(clock, (user) => user !== undefined, {
    good: bounds,
    bad: bounds,
  });
  const salt = randomBytes(32); // tokens are not kept, and their hashes cannot be used elsewhere
  return async (request) => {
    const token = bearerToken(request);
    if (token === undefined) return undefined;
    const key = createHmac("sha256", salt).update(token).digest("base64");
    return await verdicts.get(key, async () => {
      if (verdicts.asking >= maxReviews)
        throw new HttpRefusal(429, "too many tokens are being checked", { "Retry-After": "1" });
      const answer = await createReview<unknown>(options, path, {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenReview",
        spec: defined({ token, audiences: audiences.length > 0 ? audiences : undefined }),
      });
      return reviewedUser(answer, audiences);
    });
  };
}

/** The user a TokenReview names. A server that knows no audiences vouches for none that were asked for. */
function reviewedUser(answer: unknown, audiences: readonly string[]): KubeletUser | undefined {
  const { status } = decodeReview(answer, "TokenReview");
  if (status?.authenticated !== true) return undefined;
  const known = status.audiences ?? [];
  if (audiences.length > 0 && !audiences.some((audience) => known.includes(audience)))
    return undefined;
  const { username = "", uid, groups = [], extra } = status.user ?? {};
  if (username === "") return undefined;
  return defined({ name: username, groups, uid, extra });
}

/** Whether a request brings a token, good or not. */
export function hasToken(request: IncomingMessage): boolean {
  return request.headers.authorization !== undefined || bearerToken(request) !== undefined;
}

/** The token of a request: of its header, or of its subprotocols if it is a browser's WebSocket. */
function bearerToken(request: IncomingMessage): string | undefined {
  const header = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
  if (header !== undefined) return header;
  const offered = offeredProtocols(request);
  const carrying = offered.filter((name) => name.startsWith(bearerSubprotocol));
  // The answer must choose another protocol; a browser takes no connection otherwise.
  if (carrying.length !== 1 || offered.length < 2) return undefined;
  const encoded = carrying[0]?.slice(bearerSubprotocol.length) ?? "";
  return encoded === "" ? undefined : Buffer.from(encoded, "base64url").toString();
}
