import { decode, errorText } from "@kip/base";
import { K8sError } from "../errors.ts";
import type { Credential } from "./renewed-authenticator.ts";

/** The part of a kubeconfig user that names an exec plugin. */
export const decodeExecConfig = decode.object({
  apiVersion: decode.optional(decode.string),
  command: decode.string,
  args: decode.optional(decode.list(decode.string)),
  env: decode.optional(decode.list(decode.object({ name: decode.string, value: decode.string }))),
  installHint: decode.optional(decode.string),
  provideClusterInfo: decode.optional(decode.boolean),
  interactiveMode: decode.optional(decode.string),
});

/** The result of {@link decodeExecConfig}. */
export type ExecConfig = ReturnType<typeof decodeExecConfig>;

/**
 * The cluster, as passed to a plugin if the kubeconfig sets `provideClusterInfo`. Keys as in a kubeconfig.
 *
 * @see https://kubernetes.io/docs/reference/config-api/client-authentication.v1/#client-authentication-k8s-io-v1-Cluster
 */
export type ExecCluster = Readonly<Record<string, unknown>>;

const decodeCredential = decode.object({
  apiVersion: decode.optional(decode.string),
  status: decode.optional(
    decode.object({
      token: decode.optional(decode.string),
      clientCertificateData: decode.optional(decode.string),
      clientKeyData: decode.optional(decode.string),
      expirationTimestamp: decode.optional(decode.string),
    }),
  ),
});

/** The plugin's variable `KUBERNETES_EXEC_INFO`. */
export function execInfo(config: ExecConfig, cluster: ExecCluster): string {
  return JSON.stringify({
    kind: "ExecCredential",
    apiVersion: config.apiVersion,
    spec: {
      interactive: false,
      cluster: config.provideClusterInfo === true ? cluster : undefined,
    },
  });
}

/**
 * Reads a plugin's output, an ExecCredential.
 *
 * @throws {K8sError} code `K8S_CREDENTIALS_FAILED`
 */
export function readCredential(text: string, config: ExecConfig): Credential {
  const { apiVersion, status } = parse(text, config);
  if (
    apiVersion !== undefined &&
    config.apiVersion !== undefined &&
    apiVersion !== config.apiVersion
  )
    throw unusable(config, `it answers in ${apiVersion}, not in ${config.apiVersion}`);
  const { expirationTimestamp } = status ?? {};
  // An empty text means that there is none, as in client-go.
  const token = status?.token || undefined;
  const clientCertificateData = status?.clientCertificateData || undefined;
  const clientKeyData = status?.clientKeyData || undefined;
  if (token === undefined && clientCertificateData === undefined)
    throw unusable(config, "it gives neither a token nor a certificate");
  if ((clientCertificateData === undefined) !== (clientKeyData === undefined))
    throw unusable(config, "it gives a certificate or a key without the other");
  const expiresAt =
    expirationTimestamp === undefined ? Number.POSITIVE_INFINITY : Date.parse(expirationTimestamp);
  if (Number.isNaN(expiresAt))
    throw unusable(config, "its expirationTimestamp is not a valid time");
  return { token, clientCertificateData, clientKeyData, expiresAt };
}

function parse(text: string, config: ExecConfig): ReturnType<typeof decodeCredential> {
  try {
    return decodeCredential(JSON.parse(text), "ExecCredential");
  } catch (error) {
    // The parser's message quotes the output, which may be a secret.
    const reason = error instanceof SyntaxError ? "it did not print valid JSON" : errorText(error);
    throw unusable(config, reason);
  }
}

function unusable({ command }: ExecConfig, reason: string): K8sError {
  return new K8sError(
    "K8S_CREDENTIALS_FAILED",
    `Cannot use the answer of credential plugin "${command}": ${reason}`,
    { retryable: true },
  );
}
