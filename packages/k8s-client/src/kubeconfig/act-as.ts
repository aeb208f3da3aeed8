import { impersonationHeaders } from "./impersonation.ts";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";

/** The user to impersonate. */
export interface ActingUser {
  readonly user: string;
  readonly groups: readonly string[];
}

/**
 * The configuration for the same cluster with requests made as another user. The configuration's own user needs the right to
 * impersonate that user and each of its groups.
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
