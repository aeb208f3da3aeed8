import { backoffDelay, type Clock } from "@kip/base";
import type { Authenticator, AuthHeaders } from "./authenticator.ts";

/** Credentials that expire. */
export interface Credential {
  readonly token?: string | undefined;
  /** PEM. */
  readonly clientCertificateData?: string | undefined;
  readonly clientKeyData?: string | undefined;
  /** Milliseconds since the epoch. Infinity if they do not expire. */
  readonly expiresAt: number;
}

/** Options of {@link RenewedAuthenticator}. */
export interface RenewedAuthenticatorOptions {
  /** Gets new credentials. */
  readonly ask: () => Promise<Credential>;
  /** Additional headers of each request. */
  readonly headers: AuthHeaders["headers"];
  readonly clock: Clock;
}

/** How long before its expiry a credential is renewed, milliseconds. A tenth of its lifetime if that is shorter. */
const renewalMs = 60_000;

/** Pause before a refused new credential is replaced, milliseconds, because the server may refuse each one. */
const refusalPauseMs = 10_000;

const backoff = { initialMs: 1000, maxMs: 30_000 };

/**
 * Credentials that are renewed before they expire. One renewal at a time serves all waiting requests. A credential that expires
 * soon is renewed in the background. After a failed renewal there is a pause, in which requests fail with its error.
 */
export class RenewedAuthenticator implements Authenticator {
  readonly #options: RenewedAuthenticatorOptions;
  #auth: AuthHeaders | undefined;
  #renewAt = Number.NEGATIVE_INFINITY;
  #endsAt = Number.NEGATIVE_INFINITY;
  /** When the last successful renewal ended, on the monotonic clock. */
  #gotAt = Number.NEGATIVE_INFINITY;
  #isRefused = false;
  #run: Promise<AuthHeaders> | undefined;
  #failures = 0;
  #failed: { readonly error: unknown; readonly until: number } | undefined;

  constructor(options: RenewedAuthenticatorOptions) {
    this.#options = options;
  }

  async headers(): Promise<AuthHeaders> {
    const { clock } = this.#options;
    const now = clock.now();
    const isFresh = clock.monotonic() < this.#gotAt + refusalPauseMs;
    if (!this.#auth || now >= this.#endsAt || (this.#isRefused && !isFresh))
      return await this.#renew();
    if (now >= this.#renewAt) this.#renew().catch(() => {}); // the current one is still valid
    return this.#auth;
  }

  forget(): void {
    this.#isRefused = true;
  }

  async #renew(): Promise<AuthHeaders> {
    if (this.#failed && this.#options.clock.monotonic() < this.#failed.until)
      throw this.#failed.error;
    this.#run ??= this.#get().finally(() => {
      this.#run = undefined;
    });
    return await this.#run;
  }

  async #get(): Promise<AuthHeaders> {
    const { clock, ask } = this.#options;
    try {
      const credential = await ask();
      const { expiresAt } = credential;
      const now = clock.now();
      // A new credential may already be expired by this machine's clock. It is used for a while, or each request would renew
      // it.
      this.#endsAt = expiresAt > now ? expiresAt : now + refusalPauseMs;
      this.#renewAt = this.#endsAt - Math.min(renewalMs, (this.#endsAt - now) / 10);
      this.#gotAt = clock.monotonic();
      this.#isRefused = false;
      this.#failures = 0;
      this.#failed = undefined;
      this.#auth = this.#authOf(credential);
      return this.#auth;
    } catch (error) {
      const until = clock.monotonic() + backoffDelay(this.#failures++, backoff);
      this.#failed = { error, until };
      throw error;
    }
  }

  #authOf({ token, clientCertificateData, clientKeyData }: Credential): AuthHeaders {
    const { headers } = this.#options;
    return {
      headers: token === undefined ? headers : { ...headers, Authorization: `Bearer ${token}` },
      cert: clientCertificateData,
      key: clientKeyData,
    };
  }
}
