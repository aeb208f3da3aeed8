import { impersonationHeaders } from "./impersonation.ts";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";

/** The user that requests are made as. */
export interface ActingUser {
  readonly user: string;
  readonly groups: readonly string[];
}

/**
 * The same cluster, whose requests are made as another user. The user of the configuration needs the right to impersonate that
 * user and each of the groups.
 *
 * @see https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
 */
export function actAs(config: KubeConfig, { user, groups }: ActingUser): KubeConfig {
  const headers = impersonationHeaders({ as: user, "as-groups": groups });
  let known: { readonly own: Credentials; readonly acting: Credentials } | undefined;
  return {
    ...config,
    credentials: async () => {
      const own = await config.credentials();
      if (known?.own !== own)
        known = { own, acting: { ...own, headers: { ...own.headers, ...headers } } };
      return known.acting;
    },
    forget: (refused) => {
      if (known && refused === known.acting) config.forget?.(known.own);
    },
  };
}
