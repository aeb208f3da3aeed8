import { isDeepStrictEqual } from "node:util";
import type { Authenticator, AuthHeaders } from "./authenticator.ts";
import type { Credentials } from "./kubeconfig.ts";

/** PEM texts of a context: the server's authority, and the client's certificate and key. */
export interface TlsFiles {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
}

/** Options of {@link RenewedCredentials}. */
export interface RenewedCredentialsOptions {
  readonly authenticator: Authenticator;
  readonly files: TlsFiles;
  /** Reads the files again. */
  readonly read: () => Promise<TlsFiles>;
  /** The parts that do not change. */
  readonly fixed: Pick<Credentials, "serverName" | "verifyServer">;
}

/**
 * The credentials of a context. It creates a new object only when a token or file has changed, because that means new
 * connections.
 */
export class RenewedCredentials {
  readonly #options: RenewedCredentialsOptions;
  #files: TlsFiles;
  #auth: AuthHeaders | undefined;
  #current: Credentials | undefined;
  /** Whether the server refused the certificate. Its file may have been renewed. */
  #isRefused = false;

  constructor(options: RenewedCredentialsOptions) {
    this.#options = options;
    this.#files = options.files;
  }

  /** @throws {K8sError} code `K8S_CREDENTIALS_FAILED` */
  async current(): Promise<Credentials> {
    const auth = await this.#options.authenticator.headers();
    if (this.#isRefused) await this.#readFiles();
    if (!this.#current || !this.#auth || !isSameAuth(this.#auth, auth)) {
      this.#auth = auth;
      this.#current = this.#join(auth);
    }
    return this.#current;
  }

  /** Rereads files and tokens at the next call, unless these credentials were already replaced. */
  forget(refused: Credentials): void {
    if (refused !== this.#current) return;
    this.#isRefused = true;
    this.#options.authenticator.forget();
  }

  async #readFiles(): Promise<void> {
    this.#isRefused = false;
    const files = await this.#options.read().catch(() => this.#files); // files may be missing for a moment
    if (!isDeepStrictEqual(files, this.#files)) this.#current = undefined;
    this.#files = files;
  }

  #join(auth: AuthHeaders): Credentials {
    const { ca } = this.#files;
    const cert = auth.cert === undefined ? this.#files.cert : Buffer.from(auth.cert);
    const key = auth.key === undefined ? this.#files.key : Buffer.from(auth.key);
    return {
      ...this.#options.fixed,
      ca,
      cert,
      key,
      headers: auth.headers,
    };
  }
}

function isSameAuth(a: AuthHeaders, b: AuthHeaders): boolean {
  return (
    a.cert === b.cert &&
    a.key === b.key &&
    a.headers["Authorization"] === b.headers["Authorization"]
  );
}
