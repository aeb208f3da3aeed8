import { readFile } from "node:fs/promises";
import path from "node:path";
import { defined, errorText, isCodedError, type Clock, type Decoded } from "@kip/base";
import { K8sError } from "../errors.ts";
import { authenticatorOf } from "./authenticator.ts";
import type { ExecCluster } from "./exec-credential.ts";
import { impersonationHeaders } from "./impersonation.ts";
import type { KubeConfig } from "./kubeconfig.ts";
import {
  decodeCluster,
  decodeContext,
  decodeDocument,
  decodeUser,
  type KubeconfigCluster,
} from "./kubeconfig-document.ts";
import { RenewedCredentials, type TlsFiles } from "./renewed-credentials.ts";

/** Options of {@link configFromFile}. */
export interface ConfigFileOptions {
  readonly file: string;
  readonly text: string;
  /** @default the current context of the file */
  readonly context: string | undefined;
  /** Environment of exec plugins. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

/**
 * The configuration for a context of a kubeconfig file.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID`
 */
export async function configFromFile(options: ConfigFileOptions): Promise<KubeConfig> {
  const { file, text } = options;
  try {
    return await readConfig(options, decodeDocument(await readDocument(text), ""));
  } catch (error) {
    const remedy = isCodedError(error) || error instanceof Unusable ? error.remedy : undefined;
    const message = `Cannot use kubeconfig "${file}": ${errorText(error)}`;
    throw new K8sError("KUBECONFIG_INVALID", message, { cause: error, remedy });
  }
}

async function readConfig(
  options: ConfigFileOptions,
  document: Decoded<typeof decodeDocument>,
): Promise<KubeConfig> {
  const { file, env, clock } = options;
  const folder = path.dirname(file);
  const { context, cluster, user, ...found } = wantedContext(options, document);
  checkCluster(cluster);
  const read = async (): Promise<TlsFiles> => ({
    ca: await material(folder, cluster, "certificate-authority"),
    cert: await material(folder, user, "client-certificate"),
    key: await material(folder, user, "client-key"),
  });
  const files = await read();
  // With only one of them, TLS would make requests without credentials.
  if (!files.cert !== !files.key)
    throw new Unusable("its user has client-certificate or client-key without the other");
  const authenticator = await authenticatorOf({
    name: found.userName,
    user,
    impersonation: found.impersonation,
    cluster: execCluster(cluster, files.ca),
    folder,
    env,
    clock,
  });
  const fixed = {
    serverName: cluster["tls-server-name"] || undefined,
    verifyServer: cluster["insecure-skip-tls-verify"] !== true,
  };
  const credentials = new RenewedCredentials({ authenticator, files, read, fixed });
  return {
    server: (cluster.server ?? "").replace(/\/$/, ""),
    namespace: context.namespace || "default",
    source: `${file} (context ${found.contextName})`,
    credentials: async () => await credentials.current(),
    forget: (refused) => credentials.forget(refused),
  };
}

/** The chosen context with its cluster and user. */
function wantedContext(options: ConfigFileOptions, document: Decoded<typeof decodeDocument>) {
  const { contexts = [], clusters = [], users = [] } = document;
  const contextName = options.context ?? document["current-context"];
  const entry = contexts.find(({ name }) => name === contextName);
  const context = entry && decodeContext(entry.context, `contexts[${entry.name}].context`);
  const cluster = clusters.find(({ name }) => name === context?.cluster);
  const user = users.find(({ name }) => name === context?.user);
  if (!context || !cluster || !user)
    throw new Unusable(
      `it has no complete context "${contextName ?? ""}"`,
      `Name one of its contexts: ${contexts.map(({ name }) => name).join(", ") || "none"}`,
    );
  const fields = user.user ?? {};
  return {
    contextName,
    context,
    cluster: decodeCluster(cluster.cluster, `clusters[${cluster.name}].cluster`),
    userName: user.name,
    user: decodeUser(fields, `users[${user.name}].user`),
    impersonation: impersonationHeaders(fields),
  };
}

/** @throws {K8sError} code `KUBECONFIG_INVALID`, also for a cluster with a proxy, which must not be bypassed */
function checkCluster({ server = "", "proxy-url": proxy }: KubeconfigCluster): void {
  if (proxy)
    throw new Unusable(
      "its cluster has a proxy-url, which is not supported",
      "Name a server that is reachable without a proxy, and remove proxy-url",
    );
  const { protocol, hostname } = URL.parse(server) ?? {};
  if ((protocol !== "https:" && protocol !== "http:") || !hostname)
    throw new Unusable(`its cluster's server "${server}" is not an http or https URL`);
}

/** A cluster's extension for exec plugins. */
const execExtension = "client.authentication.k8s.io/exec";

/** The cluster's description for exec plugins. */
function execCluster(cluster: KubeconfigCluster, ca: Buffer | undefined): ExecCluster {
  const config = cluster.extensions?.find(({ name }) => name === execExtension)?.extension;
  return defined({
    server: cluster.server,
    "tls-server-name": cluster["tls-server-name"],
    "insecure-skip-tls-verify": cluster["insecure-skip-tls-verify"],
    "proxy-url": cluster["proxy-url"],
    "disable-compression": cluster["disable-compression"],
    "certificate-authority-data": ca?.toString("base64"),
    config,
  });
}

/**
 * JSON is also YAML, and needs no extra parser. Parsers quote the file in their messages, and it holds secrets, so those are
 * dropped.
 */
async function readDocument(text: string): Promise<unknown> {
  if (text.trimStart().startsWith("{")) {
    try {
      return JSON.parse(text);
    } catch {
      throw new Unusable("it is not valid JSON");
    }
  }
  const yaml = await import("yaml");
  try {
    return yaml.parse(text, { logLevel: "error" }) ?? {}; // an empty file has no context
  } catch (error) {
    const line = error instanceof yaml.YAMLParseError ? error.linePos?.[0].line : undefined;
    throw new Unusable(`it is not valid YAML${line === undefined ? "" : `, see line ${line}`}`);
  }
}

/** PEM texts of a kubeconfig. `NAME` is a file. `NAME-data` is base64 text and takes precedence. */
type PemKey = "certificate-authority" | "client-certificate" | "client-key";

/** @throws {Unusable} if the data are not base64, because Node would skip invalid characters */
async function material<K extends PemKey>(
  folder: string,
  source: Readonly<Partial<Record<K | `${K}-data`, string | undefined>>>,
  key: K,
): Promise<Buffer | undefined> {
  const data: string = source[`${key}-data`] ?? "";
  if (data !== "") {
    if (!/^[A-Za-z0-9+/\s]+[=\s]*$/.test(data)) throw new Unusable(`${key}-data is not base64`);
    return Buffer.from(data, "base64");
  }
  const file = source[key];
  return file ? readFile(path.resolve(folder, file)) : undefined;
}

/** Why a file cannot be used. Becomes a {@link K8sError} that names the file. */
class Unusable extends Error {
  readonly remedy: string | undefined;

  constructor(reason: string, remedy?: string) {
    super(reason);
    this.remedy = remedy;
  }
}
