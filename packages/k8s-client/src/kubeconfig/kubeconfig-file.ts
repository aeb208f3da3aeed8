import { readFile } from "node:fs/promises";
import path from "node:path";
import { errorText, type Clock } from "@kip/base";
import {
  newClusters,
  newContexts,
  newUsers,
  type Cluster,
  type Context,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { K8sError } from "../errors.ts";
import { authenticatorOf } from "./authenticator.ts";
import type { KubeConfig } from "./kubeconfig.ts";
import { RenewedCredentials, type TlsFiles } from "./renewed-credentials.ts";

// The library's entry point and its KubeConfig class load every generated API type: 88 MB of
// memory. Its parsers and authenticators, imported by file, take 4 MB.

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
 * The configuration that a context of a kubeconfig file describes.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID`
 */
export async function configFromFile(options: ConfigFileOptions): Promise<KubeConfig> {
  const { file, text } = options;
  const parts = await parse(file, text);
  const wanted = options.context ?? parts.currentContext;
  const context = parts.contexts.find((candidate) => candidate.name === wanted);
  const cluster = parts.clusters.find((candidate) => candidate.name === context?.cluster);
  const user = parts.users.find((candidate) => candidate.name === context?.user);
  if (!context || !cluster || !user) {
    const names = parts.contexts.map((candidate) => candidate.name).join(", ") || "none";
    throw invalid(file, `it has no complete context "${wanted ?? ""}"`, {
      remedy: `Name one of its contexts: ${names}`,
    });
  }
  return contextConfig({
    options,
    context,
    cluster,
    user,
    userFields: parts.userFields.get(user.name) ?? {},
    clusterFields: parts.clusterFields.get(cluster.name) ?? {},
  });
}

interface ContextParts {
  readonly options: ConfigFileOptions;
  readonly context: Context;
  readonly cluster: Cluster;
  readonly user: User;
  readonly userFields: Fields;
  readonly clusterFields: Fields;
}

async function contextConfig(parts: ContextParts): Promise<KubeConfig> {
  const { options, context, cluster, user, userFields } = parts;
  const { file, env, clock } = options;
  const folder = path.dirname(file);
  checkCluster(file, cluster.server, parts.clusterFields["proxy-url"]);
  const read = async (): Promise<TlsFiles> => ({
    ca: await material(folder, cluster.caFile, cluster.caData),
    cert: await material(folder, user.certFile, user.certData),
    key: await material(folder, user.keyFile, user.keyData),
  });
  const { tokenFile } = userFields;
  try {
    const files = await read();
    const authenticator = await authenticatorOf({
      user,
      fields: userFields,
      tokenFile: typeof tokenFile === "string" ? path.resolve(folder, tokenFile) : undefined,
      cluster: execCluster(parts.clusterFields, files.ca),
      folder,
      env,
      clock,
    });
    const credentials = new RenewedCredentials({
      authenticator,
      files,
      read,
      fixed: {
        ...(cluster.tlsServerName !== undefined && { serverName: cluster.tlsServerName }),
        verifyServer: !cluster.skipTLSVerify,
      },
    });
    return {
      server: cluster.server,
      namespace: context.namespace ?? "default",
      source: `${file} (context ${context.name})`,
      credentials: async () => await credentials.current(),
      forget: (refused) => credentials.forget(refused),
    };
  } catch (error) {
    throw invalid(file, errorText(error), { cause: error });
  }
}

/** @throws {K8sError} code `KUBECONFIG_INVALID`: past a proxy that it names, a cluster must not be reached directly */
function checkCluster(file: string, server: string | undefined, proxy: unknown): void {
  if (proxy !== undefined && proxy !== null && proxy !== "")
    throw invalid(file, "its cluster has a proxy-url, which is not supported", {
      remedy: "Name a server that is reachable without a proxy, and remove proxy-url",
    });
  const { protocol, hostname } = URL.parse(server ?? "") ?? {};
  if ((protocol !== "https:" && protocol !== "http:") || !hostname)
    throw invalid(file, `its cluster's server "${server ?? ""}" is not an http or https URL`, {});
}

interface ParsedFile {
  readonly clusters: readonly Cluster[];
  readonly contexts: readonly Context[];
  readonly users: readonly User[];
  readonly currentContext: string | undefined;
  /** What the library does not read, by name. */
  readonly userFields: ReadonlyMap<string, Fields>;
  readonly clusterFields: ReadonlyMap<string, Fields>;
}

type Fields = Readonly<Record<string, unknown>>;

async function parse(file: string, text: string): Promise<ParsedFile> {
  try {
    const document = (await readDocument(text)) as Readonly<Record<string, unknown>> | null;
    const rawUsers = Array.isArray(document?.["users"]) ? (document["users"] as RawUser[]) : [];
    // The library reads token files once, and they change.
    const users = rawUsers.map(({ name, user }) => ({
      name,
      user: { ...user, tokenFile: undefined },
    }));
    const clusters = Array.isArray(document?.["clusters"])
      ? (document["clusters"] as RawCluster[])
      : [];
    const current = document?.["current-context"];
    return {
      clusters: newClusters(clusters),
      contexts: newContexts(document?.["contexts"]),
      users: newUsers(users),
      currentContext: typeof current === "string" && current !== "" ? current : undefined,
      userFields: new Map(rawUsers.map(({ name, user }) => [name, user ?? {}])),
      clusterFields: new Map(clusters.map(({ name, cluster }) => [name, cluster ?? {}])),
    };
  } catch (error) {
    throw invalid(file, errorText(error), { cause: error });
  }
}

interface RawUser {
  readonly name: string;
  readonly user?: Fields;
}

interface RawCluster {
  readonly name: string;
  readonly cluster?: Fields;
}

/** The extension of a cluster that is meant for exec plugins. */
const execExtension = "client.authentication.k8s.io/exec";

/** What an exec plugin may know of the cluster. */
function execCluster(fields: Fields, ca: Buffer | undefined): Fields {
  const extensions = Array.isArray(fields["extensions"])
    ? (fields["extensions"] as readonly { readonly name?: unknown; readonly extension?: unknown }[])
    : [];
  const config = extensions.find(({ name }) => name === execExtension)?.extension;
  const names = [
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "proxy-url",
    "disable-compression",
  ];
  return {
    ...Object.fromEntries(
      names.filter((name) => fields[name] !== undefined).map((name) => [name, fields[name]]),
    ),
    ...(ca && { "certificate-authority-data": ca.toString("base64") }),
    ...(config !== undefined && { config }),
  };
}

/** JSON is YAML too, and needs no parser loaded. */
async function readDocument(text: string): Promise<unknown> {
  if (text.trimStart().startsWith("{")) return JSON.parse(text);
  const yaml = await import("yaml");
  return yaml.parse(text);
}

async function material(
  folder: string,
  file: string | undefined,
  base64: string | undefined,
): Promise<Buffer | undefined> {
  if (base64) return Buffer.from(base64, "base64");
  return file ? readFile(path.resolve(folder, file)) : undefined;
}

function invalid(
  file: string,
  reason: string,
  options: { readonly cause?: unknown; readonly remedy?: string },
): K8sError {
  return new K8sError("KUBECONFIG_INVALID", `Cannot use kubeconfig "${file}": ${reason}`, options);
}
