import path from "node:path";
import { withTimeout, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import type { AuthHeaders } from "./authenticator.ts";
import { execInfo, readCredential, type ExecCluster, type ExecConfig } from "./exec-credential.ts";
import { runPlugin } from "./exec-plugin.ts";
import { RenewedAuthenticator, type Credential } from "./renewed-authenticator.ts";

/** Options of {@link execAuthenticator}. */
export interface ExecAuthenticatorOptions {
  readonly config: ExecConfig;
  readonly cluster: ExecCluster;
  /** The kubeconfig's folder. A relative path of the plugin starts there. */
  readonly folder: string;
  /** Environment of the plugin, without the plugin's own variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Additional headers of each request. */
  readonly headers: AuthHeaders["headers"];
  readonly clock: Clock;
}

/** Time limit for a plugin, milliseconds. */
const runLimitMs = 60_000;

/**
 * Credentials of an exec plugin.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID` for a plugin that needs a terminal
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
export function execAuthenticator(options: ExecAuthenticatorOptions): RenewedAuthenticator {
  const { config, headers, clock } = options;
  if (config.interactiveMode === "Always")
    throw new K8sError(
      "KUBECONFIG_INVALID",
      `Cannot use credential plugin "${config.command}": it needs a terminal (interactiveMode Always)`,
      { remedy: "Use a plugin without interactiveMode Always, a certificate or a token" },
    );
  return new RenewedAuthenticator({ ask: async () => await ask(options), headers, clock });
}

async function ask(options: ExecAuthenticatorOptions): Promise<Credential> {
  const { config, cluster, folder, env, clock } = options;
  const own = (config.env ?? []).map(({ name, value }) => [name, value] as const);
  const run = async (signal: AbortSignal): Promise<string> =>
    await runPlugin({
      command: [pluginPath(config.command, folder), ...(config.args ?? [])],
      env: { ...env, ...Object.fromEntries(own), KUBERNETES_EXEC_INFO: execInfo(config, cluster) },
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

/** A name is looked up in PATH. A relative path starts at the kubeconfig's folder, as for kubectl. */
function pluginPath(command: string, folder: string): string {
  return command.includes(path.sep) ? path.resolve(folder, command) : command;
}
