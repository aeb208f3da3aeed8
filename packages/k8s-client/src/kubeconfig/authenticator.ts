import path from "node:path";
import type { Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import { decodeExecConfig, type ExecCluster } from "./exec-credential.ts";
import type { KubeconfigUser } from "./kubeconfig-document.ts";
import { TokenFile } from "./token-file.ts";

/** What an authenticator adds to requests. */
export interface AuthHeaders {
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** PEM, from exec plugins. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** Provides the current credentials of a kubeconfig user. */
export interface Authenticator {
  /** @throws {K8sError} code `K8S_CREDENTIALS_FAILED` */
  headers(): Promise<AuthHeaders>;
  /** Called when the server refused the credentials. The next call gets new ones. */
  forget(): void;
}

/** Options of {@link authenticatorOf}. */
export interface AuthenticatorOptions {
  /** Name of the user, for messages. */
  readonly name: string;
  readonly user: KubeconfigUser;
  /** Impersonation headers. */
  readonly impersonation: AuthHeaders["headers"];
  /** The cluster's description, which exec plugins may request. */
  readonly cluster: ExecCluster;
  /** The kubeconfig's folder. */
  readonly folder: string;
  /** Environment of an exec plugin. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

/**
 * The authenticator for a kubeconfig user: token, token file, password, exec plugin or provider.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID`, `DECODE_FAILED`
 */
export async function authenticatorOf(options: AuthenticatorOptions): Promise<Authenticator> {
  const { name, user, folder, clock, impersonation: headers } = options;
  if (user.tokenFile)
    return fromTokenFile(new TokenFile(path.resolve(folder, user.tokenFile), clock), headers);
  if (user.token) return fixed({ ...headers, Authorization: `Bearer ${user.token}` });
  if (user.username) {
    const basic = Buffer.from(`${user.username}:${user.password ?? ""}`).toString("base64");
    return fixed({ ...headers, Authorization: `Basic ${basic}` });
  }
  const exec = execOf(user);
  const provider = user["auth-provider"];
  // Both are loaded only here, because few kubeconfigs use them.
  if (exec !== undefined) {
    const { execAuthenticator } = await import("./exec-authenticator.ts");
    const { cluster, env } = options;
    const decoded = decodeExecConfig(exec, `users[${name}].user.exec`);
    return execAuthenticator({ config: decoded, cluster, folder, env, headers, clock });
  }
  if (provider === undefined) return fixed(headers);
  if (provider.name !== "oidc")
    throw new K8sError(
      "KUBECONFIG_INVALID",
      `Cannot use kubeconfig user "${name}": its auth-provider "${provider.name ?? ""}" is not known`,
      { remedy: "Use a certificate, a token or an exec plugin" },
    );
  const { oidcAuthenticator } = await import("./oidc-authenticator.ts");
  return oidcAuthenticator({ name, config: provider.config, folder, headers, clock });
}

function fromTokenFile(token: TokenFile, headers: AuthHeaders["headers"]): Authenticator {
  return {
    headers: async () => ({
      headers: { ...headers, Authorization: `Bearer ${await token.read()}` },
    }),
    forget: () => token.forget(),
  };
}

function fixed(headers: AuthHeaders["headers"]): Authenticator {
  const answer = { headers };
  return { headers: () => Promise.resolve(answer), forget: () => {} };
}

/** The user's exec plugin. Early kubeconfigs had it in their auth-provider. */
function execOf({ exec, "auth-provider": provider }: KubeconfigUser): unknown {
  const config = provider?.config;
  const isOld = typeof config === "object" && config !== null && "exec" in config;
  return exec ?? (isOld ? (config.exec ?? undefined) : undefined);
}
