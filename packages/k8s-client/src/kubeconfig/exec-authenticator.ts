import path from "node:path";
import { backoffDelay, withTimeout, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import type { Authenticator, AuthHeaders } from "./authenticator.ts";
import {
  execInfo,
  readCredential,
  type ExecCluster,
  type ExecConfig,
  type ExecCredential,
} from "./exec-credential.ts";
import { runPlugin } from "./exec-plugin.ts";

/** Options of {@link ExecAuthenticator}. */
export interface ExecAuthenticatorOptions {
  readonly config: ExecConfig;
  readonly cluster: ExecCluster;
  /** Folder of the kubeconfig: a relative path of the plugin begins there. */
  readonly folder: string;
  /** Environment of the plugin, before its own variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Headers of each request besides. */
  readonly headers: AuthHeaders["headers"];
  readonly clock: Clock;
}

/** Longest run of a plugin. */
const runLimitMs = 60_000;

/** How long before its end a credential is renewed, at most; a tenth of its life if that is shorter. */
const renewalMs = 60_000;

/** A new credential that is refused is not replaced sooner: the server may refuse each one. */
const refusalPauseMs = 10_000;

const backoff = { initialMs: 1000, maxMs: 30_000 };

/**
 * Credentials of an exec plugin. One run at a time serves all waiting requests. A credential near its end is
 * renewed in the background. After a failed run there is a pause in which requests fail with its error.
 *
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
export class ExecAuthenticator implements Authenticator {
  readonly #options: ExecAuthenticatorOptions;
  #auth: AuthHeaders | undefined;
  #renewAt = Number.NEGATIVE_INFINITY;
  #endsAt = Number.NEGATIVE_INFINITY;
  /** When the last run that gave a credential ended, on the monotonic clock. */
  #gotAt = Number.NEGATIVE_INFINITY;
  #isRefused = false;
  #run: Promise<AuthHeaders> | undefined;
  #failures = 0;
  #failed: { readonly error: unknown; readonly until: number } | undefined;

  /** @throws {K8sError} code `KUBECONFIG_INVALID` for a plugin that needs a terminal */
  constructor(options: ExecAuthenticatorOptions) {
    this.#options = options;
    if (options.config.interactiveMode === "Always")
      throw new K8sError(
        "KUBECONFIG_INVALID",
        `Cannot use credential plugin "${options.config.command}": it needs a terminal (interactiveMode Always)`,
        { remedy: "Use a plugin without interactiveMode Always, a certificate or a token" },
      );
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
    const { clock, headers } = this.#options;
    try {
      const credential = await this.#ask();
      const { token, clientCertificateData: cert, clientKeyData: key, expiresAt } = credential;
      const now = clock.now();
      // One that has ended already, by our clock, is used for a while: the plugin would run for each request.
      this.#endsAt = expiresAt > now ? expiresAt : now + refusalPauseMs;
      this.#renewAt = this.#endsAt - Math.min(renewalMs, (this.#endsAt - now) / 10);
      this.#gotAt = clock.monotonic();
      this.#isRefused = false;
      this.#failures = 0;
      this.#failed = undefined;
      this.#auth = {
        headers: { ...headers, ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
        ...(cert !== undefined && { cert }),
        ...(key !== undefined && { key }),
      };
      return this.#auth;
    } catch (error) {
      const until = clock.monotonic() + backoffDelay(this.#failures++, backoff);
      this.#failed = { error, until };
      throw error;
    }
  }

  async #ask(): Promise<ExecCredential> {
    const { config, cluster, folder, env, clock } = this.#options;
    const own = (config.env ?? []).map(({ name, value }) => [name, value] as const);
    const run = async (signal: AbortSignal): Promise<string> =>
      await runPlugin({
        command: [pluginPath(config.command, folder), ...(config.args ?? [])],
        env: {
          ...env,
          ...Object.fromEntries(own),
          KUBERNETES_EXEC_INFO: execInfo(config, cluster),
        },
        installHint: config.installHint,
        signal,
      });
    const error = (): K8sError =>
      new K8sError(
        "K8S_CREDENTIALS_FAILED",
        `Cannot run credential plugin "${config.command}": it was ended after ${runLimitMs / 1000} s`,
        { retryable: true },
      );
    return readCredential(await withTimeout(run, { limitMs: runLimitMs, clock, error }), config);
  }
}

/** A name is looked for in PATH; a relative path begins at the kubeconfig, as for kubectl. */
function pluginPath(command: string, folder: string): string {
  return command.includes(path.sep) ? path.resolve(folder, command) : command;
}
