import type { Clock } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { reviewAuthorize, type AccessReviewOptions } from "./review-authorize.ts";
import { hasToken, tokenUser, type TokenReviewOptions } from "./token-user.ts";
import {
  certificateUser,
  type KubeletAuthenticate,
  type KubeletAuthorize,
  type KubeletUser,
} from "./user.ts";

/** Options of {@link delegatedAccess}. */
export interface DelegatedAccessOptions {
  readonly client: ApiClient;
  /** Name of the Node object. */
  readonly nodeName: string;
  readonly tokens?: Pick<TokenReviewOptions, "audiences" | "cacheMs"> | undefined;
  readonly reviews?: Pick<AccessReviewOptions, "allowedCacheMs" | "deniedCacheMs"> | undefined;
  /**
   * Whether a client without a certificate and a token is `system:anonymous`. The cluster decides what that user may do.
   * @default false
   */
  readonly anonymous?: boolean | undefined;
  readonly clock: Clock;
}

const anonymousUser: KubeletUser = { name: "system:anonymous", groups: ["system:unauthenticated"] };
const authenticatedGroup = "system:authenticated";

/**
 * Lets the API server decide who may use the kubelet API, as a kubelet does. A client certificate of the configured authority,
 * or a bearer token (with a TokenReview), identifies the user. SubjectAccessReviews on the node decide what the user may do.
 * The client needs the permissions of the ClusterRole `system:auth-delegator`.
 */
export function delegatedAccess(options: DelegatedAccessOptions): {
  readonly authenticate: KubeletAuthenticate;
  readonly authorize: KubeletAuthorize;
} {
  const { client, nodeName, clock } = options;
  const byToken = tokenUser({ client, clock, ...options.tokens });
  return {
    authenticate: async (request) => {
      const user = (await certificateUser(request, clock)) ?? (await byToken(request));
      if (user) return withGroup(user);
      // A client with an invalid token is not anonymous.
      return options.anonymous === true && !hasToken(request) ? anonymousUser : undefined;
    },
    authorize: reviewAuthorize({ client, nodeName, clock, ...options.reviews }),
  };
}

function withGroup(user: KubeletUser): KubeletUser {
  if (user.groups.includes(authenticatedGroup)) return user;
  return { ...user, groups: [...user.groups, authenticatedGroup] };
}
