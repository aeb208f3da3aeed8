import { KipError } from "@kip/base";
import type { User } from "@kubernetes/client-node/dist/config_types.js";
import { TokenFile } from "./token-file.ts";

/** What an authenticator adds to a request. */
export interface AuthHeaders {
  readonly headers: Readonly<Record<string, string>>;
  /** PEM, from exec plugins. */
  readonly cert?: string;
  readonly key?: string;
}

/** Gives the current credentials of a kubeconfig user. */
export interface Authenticator {
  headers(): Promise<AuthHeaders>;
  /** The server refused what it gave: get new ones. */
  forget(): void;
}

/** The authenticator that a kubeconfig user asks for: token, token file, password, exec plugin, provider. */
export async function authenticatorOf(
  user: User,
  tokenFile: string | undefined,
): Promise<Authenticator> {
  const impersonate: Record<string, string> =
    user.impersonateUser === undefined ? {} : { "Impersonate-User": user.impersonateUser };
  if (tokenFile !== undefined) {
    const token = new TokenFile(tokenFile);
    return {
      headers: async () => ({
        headers: { ...impersonate, Authorization: `Bearer ${await token.read()}` },
      }),
      forget: () => token.forget(),
    };
  }
  if (user.token) return fixed({ ...impersonate, Authorization: `Bearer ${user.token}` });
  if (user.username) {
    const basic = Buffer.from(`${user.username}:${user.password ?? ""}`).toString("base64");
    return fixed({ ...impersonate, Authorization: `Basic ${basic}` });
  }
  if (!user.exec && !user.authProvider) return fixed(impersonate);
  return fromLibrary(user, impersonate);
}

function fixed(headers: Readonly<Record<string, string>>): Authenticator {
  const answer = { headers };
  return { headers: () => Promise.resolve(answer), forget: () => {} };
}

interface LibraryAuthenticator {
  isAuthProvider(user: User): boolean;
  applyAuthentication(user: User, options: LibraryOptions): Promise<void>;
}

interface LibraryOptions {
  headers: Record<string, string>;
  cert?: string;
  key?: string;
}

async function fromLibrary(user: User, extra: Readonly<Record<string, string>>) {
  const create = await libraryAuthenticator(user);
  let library = create();
  if (!library.isAuthProvider(user)) {
    throw new KipError(
      "KUBECONFIG_INVALID",
      `Cannot use kubeconfig user "${user.name}": its auth-provider is not known`,
      { remedy: "Use a certificate, a token or an exec plugin" },
    );
  }
  return {
    headers: async () => {
      const options: LibraryOptions = { headers: { ...extra } };
      await library.applyAuthentication(user, options);
      return options;
    },
    forget: () => {
      library = create();
    },
  } satisfies Authenticator;
}

/** Each provider is loaded only where a kubeconfig names it: OIDC brings all of the library into memory. */
async function libraryAuthenticator(user: User): Promise<() => LibraryAuthenticator> {
  const provider: unknown = (user.authProvider as { readonly name?: unknown } | null)?.name;
  if (provider === "oidc") {
    const { OpenIDConnectAuth } = await import("@kubernetes/client-node/dist/oidc_auth.js");
    return () => new OpenIDConnectAuth();
  }
  const { ExecAuth } = await import("@kubernetes/client-node/dist/exec_auth.js");
  return () => new ExecAuth();
}
