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

/** Options of {@link tokenUser}. */
export interface TokenReviewOptions {
  readonly client: ApiClient;
  /** A token must be for one of these audiences. @default those of the API server */
  readonly audiences?: readonly string[] | undefined;
  /** How long a verdict is cached, positive or negative, milliseconds. @default 2 minutes */
  readonly cacheMs?: number | undefined;
  readonly clock: Clock;
}

/** Most cached verdicts, and most concurrent reviews. */
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

/** The user of a bearer token, determined by a TokenReview. Undefined without a valid token. */
export function tokenUser(options: TokenReviewOptions): KubeletAuthenticate {
  const { clock, cacheMs: keepMs = defaultCacheMs, audiences = [] } = options;
  const bounds = { keepMs, entries: cacheEntries };
  const verdicts = new VerdictCache<KubeletUser | undefined>(clock, (user) => user !== undefined, {
    good: bounds,
    bad: bounds,
  });
  const salt = randomBytes(32); // tokens are not stored, and their hashes are useless elsewhere
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

/** The user in a TokenReview's status. If the server does not support audiences, the token is not valid for requested ones. */
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

/** Whether a request has a token, valid or not. */
export function hasToken(request: IncomingMessage): boolean {
  return request.headers.authorization !== undefined || bearerToken(request) !== undefined;
}

/** The token of a request, from its header or, for a browser's WebSocket, from its subprotocols. */
function bearerToken(request: IncomingMessage): string | undefined {
  const header = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
  if (header !== undefined) return header;
  const offered = offeredProtocols(request);
  const carrying = offered.filter((name) => name.startsWith(bearerSubprotocol));
  // The response must select another protocol. Otherwise a browser does not accept the connection.
  if (carrying.length !== 1 || offered.length < 2) return undefined;
  const encoded = carrying[0]?.slice(bearerSubprotocol.length) ?? "";
  return encoded === "" ? undefined : Buffer.from(encoded, "base64url").toString();
}
