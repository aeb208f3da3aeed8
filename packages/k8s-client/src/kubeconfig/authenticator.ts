import { errorText, withTimeout, type Clock } from "@kip/base";
import type { User } from "@kubernetes/client-node/dist/config_types.js";
import { K8sError } from "../errors.ts";
import { decodeExecConfig, type ExecCluster } from "./exec-credential.ts";
import { impersonationHeaders } from "./impersonation.ts";
import { TokenFile } from "./token-file.ts";

/** What an authenticator adds to a request. */
export interface AuthHeaders {
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** PEM, from exec plugins. */
  readonly cert?: string;
  readonly key?: string;
}

/** Gives the current credentials of a kubeconfig user. */
export interface Authenticator {
  /** @throws {K8sError} code `K8S_CREDENTIALS_FAILED` */
  headers(): Promise<AuthHeaders>;
  /** The server refused what it gave: get new ones. */
  forget(): void;
}

/** What an authenticator is made of. */
export interface AuthenticatorOptions {
  readonly user: User;
  /** The same user, as the file has it. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly tokenFile: string | undefined;
  /** What an exec plugin may ask for. */
  readonly cluster: ExecCluster;
  /** Folder of the kubeconfig. */
  readonly folder: string;
  /** Environment of an exec plugin. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

/**
 * The authenticator that a kubeconfig user asks for: token, token file, password, exec plugin, provider.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID`, `DECODE_FAILED`
 */
export async function authenticatorOf(options: AuthenticatorOptions): Promise<Authenticator> {
  const { user, tokenFile } = options;
  const headers = impersonationHeaders(options.fields);
  if (tokenFile !== undefined) {
    const token = new TokenFile(tokenFile, options.clock);
    return {
      headers: async () => ({
        headers: { ...headers, Authorization: `Bearer ${await token.read()}` },
      }),
      forget: () => token.forget(),
    };
  }
  if (user.token) return fixed({ ...headers, Authorization: `Bearer ${user.token}` });
  if (user.username) {
    const basic = Buffer.from(`${user.username}:${user.password ?? ""}`).toString("base64");
    return fixed({ ...headers, Authorization: `Basic ${basic}` });
  }
  const exec = execOf(user);
  if (exec !== undefined) {
    // Loaded only here: few kubeconfigs name a plugin.
    const { ExecAuthenticator } = await import("./exec-authenticator.ts");
    const { cluster, folder, env, clock } = options;
    const config = decodeExecConfig(exec, `users[${user.name}].user.exec`);
    return new ExecAuthenticator({ config, cluster, folder, env, headers, clock });
  }
  return user.authProvider ? await fromLibrary(options, headers) : fixed(headers);
}

function fixed(headers: AuthHeaders["headers"]): Authenticator {
  const answer = { headers };
  return { headers: () => Promise.resolve(answer), forget: () => {} };
}

/** The plugin of a user; early kubeconfigs had it in their auth-provider. */
function execOf(user: User): unknown {
  if (user.exec) return user.exec;
  const { config } = (user.authProvider ?? {}) as { readonly config?: { readonly exec?: unknown } };
  return config?.exec;
}

interface LibraryOptions {
  headers: Record<string, string>;
}

/** Longest refresh of a token by the library. */
const refreshLimitMs = 60_000;

/** Loaded only where a kubeconfig names it: OIDC brings all of the library into memory. */
async function fromLibrary(
  { user, clock }: AuthenticatorOptions,
  headers: AuthHeaders["headers"],
): Promise<Authenticator> {
  const { OpenIDConnectAuth } = await import("@kubernetes/client-node/dist/oidc_auth.js");
  let library = new OpenIDConnectAuth();
  if (!library.isAuthProvider(user)) {
    throw new K8sError(
      "KUBECONFIG_INVALID",
      `Cannot use kubeconfig user "${user.name}": its auth-provider is not known`,
      { remedy: "Use a certificate, a token or an exec plugin" },
    );
  }
  const ask = async (): Promise<AuthHeaders> => {
    const options: LibraryOptions = { headers: {} };
    try {
      await withTimeout(async () => await library.applyAuthentication(user, options), {
        limitMs: refreshLimitMs,
        clock,
      });
    } catch (cause) {
      throw new K8sError(
        "K8S_CREDENTIALS_FAILED",
        `Cannot get a token for kubeconfig user "${user.name}": ${errorText(cause)}`,
        { cause, retryable: true },
      );
    }
    return { headers: { ...headers, ...options.headers } };
  };
  let underWay: Promise<AuthHeaders> | undefined;
  return {
    headers: async () => {
      underWay ??= ask().finally(() => {
        underWay = undefined;
      });
      return await underWay;
    },
    forget: () => {
      library = new OpenIDConnectAuth();
    },
  };
}
