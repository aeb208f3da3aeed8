import { readFile } from "node:fs/promises";
import https from "node:https";
import path from "node:path";
import { decode, errorText, withTimeout, type Clock, type Decoded } from "@kip/base";
import { K8sError, type K8sErrorOptions } from "../errors.ts";
import type { AuthHeaders } from "./authenticator.ts";
import { RenewedAuthenticator, type Credential } from "./renewed-authenticator.ts";

/** Options of {@link oidcAuthenticator}. */
export interface OidcOptions {
  /** Name of the kubeconfig user, for messages. */
  readonly name: string;
  /** `auth-provider.config` of the user. */
  readonly config: unknown;
  /** The kubeconfig's folder. Relative paths start there. */
  readonly folder: string;
  /** Additional headers of each request. */
  readonly headers: AuthHeaders["headers"];
  readonly clock: Clock;
}

const { object, optional, string } = decode;

const decodeConfig = object({
  "idp-issuer-url": optional(string),
  "idp-certificate-authority": optional(string),
  "idp-certificate-authority-data": optional(string),
  "client-id": optional(string),
  "client-secret": optional(string),
  "id-token": optional(string),
  "refresh-token": optional(string),
});

/** The parts of the issuer's documents that are used. */
const decodeDiscovery = object({ token_endpoint: string });
const decodeTokens = object({ id_token: string, refresh_token: optional(string) });
const decodeClaims = object({ exp: decode.number });

/** Time limit for renewing a token, for all requests together, milliseconds. */
const renewalLimitMs = 60_000;
const maxAnswerBytes = 1024 * 1024;

/**
 * The ID token of a kubeconfig, renewed with its refresh token. Renewed tokens are only kept in memory.
 *
 * @throws {DecodeError} code `DECODE_FAILED`
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens
 * @see https://openid.net/specs/openid-connect-core-1_0.html#RefreshTokens
 */
export function oidcAuthenticator(options: OidcOptions): RenewedAuthenticator {
  const { config, headers, clock } = options;
  const tokens = new OidcTokens(options, decodeConfig(config ?? {}, "auth-provider.config"));
  return new RenewedAuthenticator({ ask: async () => await tokens.ask(), headers, clock });
}

class OidcTokens {
  readonly #options: OidcOptions;
  readonly #config: Decoded<typeof decodeConfig>;
  #idToken: string | undefined;
  #refreshToken: string | undefined;
  #isFirst = true;
  /** The issuer refused the client secret in a header, and accepted it in the form. */
  #isSecretInForm = false;

  constructor(options: OidcOptions, config: Decoded<typeof decodeConfig>) {
    this.#options = options;
    this.#config = config;
    this.#idToken = config["id-token"] || undefined;
    this.#refreshToken = config["refresh-token"] || undefined;
  }

  /** Returns the file's token at first. Later calls, after it has expired or was refused, renew it. */
  async ask(): Promise<Credential> {
    const stored = { token: this.#idToken, expiresAt: endOf(this.#idToken) };
    const isValid = stored.expiresAt > this.#options.clock.now();
    if (isValid && (this.#isFirst || this.#refreshToken === undefined)) {
      this.#isFirst = false;
      return stored;
    }
    const client = this.#client();
    try {
      const limit = { limitMs: renewalLimitMs, clock: this.#options.clock };
      await withTimeout(async (signal) => await this.#renew(client, signal), limit);
    } catch (cause) {
      throw this.#failed(errorText(cause), { cause, retryable: true });
    }
    return { token: this.#idToken, expiresAt: endOf(this.#idToken) };
  }

  #failed(reason: string, options: K8sErrorOptions): K8sError {
    const message = `Cannot get a token for kubeconfig user "${this.#options.name}": ${reason}`;
    return new K8sError("K8S_CREDENTIALS_FAILED", message, options);
  }

  /** @throws {K8sError} code `K8S_CREDENTIALS_FAILED`, not retryable, if the kubeconfig lacks a key */
  #client(): OidcClient {
    const { "idp-issuer-url": issuer = "", "client-id": id = "" } = this.#config;
    const { "client-secret": secret = "" } = this.#config;
    const refreshToken = this.#refreshToken ?? "";
    const keys = { "refresh-token": refreshToken, "idp-issuer-url": issuer, "client-id": id };
    const missing = Object.entries(keys).filter(([, value]) => value === "");
    if (missing.length === 0) return { issuer, id, secret, refreshToken };
    const names = missing.map(([key]) => key).join(", ");
    throw this.#failed(`it has to be renewed, and its auth-provider has no ${names}`, {
      remedy: "Log in again, and give the kubeconfig what is missing",
    });
  }

  async #renew(client: OidcClient, signal: AbortSignal): Promise<void> {
    const ca = await this.#authority();
    const wellKnown = `${client.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
    const discovery = decodeDiscovery(await request(wellKnown, { ca, signal }), "discovery");
    const answer = await this.#exchange(discovery.token_endpoint, client, { ca, signal });
    const { id_token: idToken, refresh_token: refreshToken } = decodeTokens(answer, "tokens");
    this.#idToken = idToken;
    this.#refreshToken = refreshToken || this.#refreshToken;
  }

  /**
   * Sends the refresh token. The client secret goes into a header, or into the form if the issuer refuses the header. Issuers
   * need not accept both, and client-go tries both (RFC 6749, section 2.3.1).
   */
  async #exchange(
    url: string,
    { id, secret, refreshToken }: OidcClient,
    options: IssuerRequest,
  ): Promise<unknown> {
    const grant = { grant_type: "refresh_token", refresh_token: refreshToken };
    const form = (fields: Readonly<Record<string, string>>): string =>
      new URLSearchParams({ ...grant, ...fields }).toString();
    if (secret === "") return await request(url, { ...options, form: form({ client_id: id }) });
    if (!this.#isSecretInForm) {
      try {
        const authorization = basic(id, secret);
        return await request(url, { ...options, form: form({}), authorization });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
    }
    const withSecret = form({ client_id: id, client_secret: secret });
    const answer = await request(url, { ...options, form: withSecret });
    this.#isSecretInForm = true;
    return answer;
  }

  async #authority(): Promise<Buffer | undefined> {
    const data = this.#config["idp-certificate-authority-data"];
    const file = this.#config["idp-certificate-authority"];
    if (data) return Buffer.from(data, "base64");
    return file ? await readFile(path.resolve(this.#options.folder, file)) : undefined;
  }
}

/** Expiry of a token, milliseconds since the epoch. An unreadable token counts as expired. */
function endOf(token: string | undefined): number {
  try {
    const claims = Buffer.from(token?.split(".")[1] ?? "", "base64url").toString("utf8");
    return decodeClaims(JSON.parse(claims), "token").exp * 1000;
  } catch {
    return Number.NEGATIVE_INFINITY;
  }
}

/** The Basic authorization of RFC 6749, section 2.3.1. */
function basic(id: string, secret: string): string {
  const [user, password] = [id, secret].map((text) =>
    new URLSearchParams({ text }).toString().slice("text=".length),
  );
  return `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
}

/** The data for renewing a token. */
interface OidcClient {
  readonly issuer: string;
  readonly id: string;
  /** Empty if there is none. */
  readonly secret: string;
  readonly refreshToken: string;
}

interface IssuerRequest {
  readonly ca: Buffer | undefined;
  readonly signal: AbortSignal;
  /** Sent with POST. */
  readonly form?: string | undefined;
  readonly authorization?: string | undefined;
}

/** The issuer's JSON response. Its error text is not repeated, because it may quote a token. */
async function request(url: string, options: IssuerRequest): Promise<unknown> {
  const { ca, signal, form, authorization } = options;
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const headers: Record<string, string> = { Accept: "application/json" };
  if (form !== undefined) headers["Content-Type"] = "application/x-www-form-urlencoded";
  if (authorization !== undefined) headers["Authorization"] = authorization;
  const method = form === undefined ? "GET" : "POST";
  const sent = https.request(url, { method, headers, ca, signal, agent: false }, (answer) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    answer.on("error", reject);
    answer.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxAnswerBytes) answer.destroy(new Error("the issuer's answer is too large"));
    });
    answer.on("end", () => {
      if (answer.statusCode !== 200) {
        const text = `the issuer answered with status ${answer.statusCode}`;
        const isRefusal = answer.statusCode === 400 || answer.statusCode === 401;
        return reject(isRefusal ? new Refusal(text) : new Error(text));
      }
      try {
        return resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")));
      } catch {
        return reject(new Error("the issuer did not answer in JSON"));
      }
    });
  });
  sent.on("error", reject);
  sent.end(form);
  return await promise;
}

/** The issuer refused the request. */
class Refusal extends Error {}
