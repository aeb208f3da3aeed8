import { decode, defined, type Clock } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { createReview } from "./review-call.ts";
import type { KubeletAuthorize, KubeletUser } from "./user.ts";
import { VerdictCache } from "./verdict-cache.ts";

/** Options of {@link reviewAuthorize}. */
export interface AccessReviewOptions {
  readonly client: ApiClient;
  /** Name of the Node object. */
  readonly nodeName: string;
  /** How long a positive verdict is cached, milliseconds. @default 5 minutes */
  readonly allowedCacheMs?: number | undefined;
  /** How long a negative verdict is cached, milliseconds. @default 30 seconds */
  readonly deniedCacheMs?: number | undefined;
  readonly clock: Clock;
}

const cacheEntries = 1000;
const defaultAllowedMs = 5 * 60_000;
const defaultDeniedMs = 30_000;
const path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

const { boolean, object, optional } = decode;
const decodeReview = object({ status: optional(object({ allowed: optional(boolean) })) });

/**
 * Asks the API server with SubjectAccessReviews: one for each subresource that covers the request, starting with the narrowest,
 * until one is allowed.
 */
export function reviewAuthorize(options: AccessReviewOptions): KubeletAuthorize {
  const { nodeName, clock } = options;
  const verdicts = new VerdictCache<boolean>(clock, (isAllowed) => isAllowed, {
    good: { keepMs: options.allowedCacheMs ?? defaultAllowedMs, entries: cacheEntries },
    bad: { keepMs: options.deniedCacheMs ?? defaultDeniedMs, entries: cacheEntries },
  });
  return async (user, { verb, subresources }) => {
    for (const subresource of subresources) {
      const isAllowed = await verdicts.get(question(user, verb, subresource), async () => {
        const answer = await createReview<unknown>(options, path, {
          apiVersion: "authorization.k8s.io/v1",
          kind: "SubjectAccessReview",
          spec: defined({
            user: user.name,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            resourceAttributes: {
              verb,
              group: "",
              version: "v1",
              resource: "nodes",
              subresource,
              name: nodeName,
            },
          }),
        });
        return decodeReview(answer, "SubjectAccessReview").status?.allowed === true;
      });
      if (isAllowed) return true;
    }
    return false;
  };
}

/** Everything that the verdict depends on, as a cache key. */
function question(user: KubeletUser, verb: string, subresource: string): string {
  const extra = Object.entries(user.extra ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([user.name, user.uid, user.groups, extra, verb, subresource]);
}
