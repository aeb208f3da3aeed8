import { readFile } from "node:fs/promises";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { errorText, KipError } from "@kip/base";
import {
  newClusters,
  newContexts,
  newUsers,
  type Cluster,
  type Context,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { authenticatorOf, type AuthHeaders } from "./authenticator.ts";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";

// The library's entry point and its KubeConfig class load every generated API type: 88 MB of
// memory. Its parsers and authenticators, imported by file, take 4 MB.

/**
 * The configuration that a context of a kubeconfig file describes.
 *
 * @throws {KipError} code `KUBECONFIG_INVALID`
 */
export async function configFromFile(
  file: string,
  text: string,
  contextName?: string,
): Promise<KubeConfig> {
  const parts = await parse(file, text);
  const wanted = contextName ?? parts.currentContext;
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
    file,
    context,
    cluster,
    user,
    tokenFile: parts.tokenFiles.get(user.name),
  });
}

interface ContextParts {
  readonly file: string;
  readonly context: Context;
  readonly cluster: Cluster;
  readonly user: User;
  readonly tokenFile: string | undefined;
}

async function contextConfig(parts: ContextParts): Promise<KubeConfig> {
  const { file, context, cluster, user } = parts;
  const folder = path.dirname(file);
  const read = (): Promise<(Buffer | undefined)[]> =>
    Promise.all([
      material(folder, cluster.caFile, cluster.caData),
      material(folder, user.certFile, user.certData),
      material(folder, user.keyFile, user.keyData),
    ]);
  let files = await read().catch((error: unknown) => {
    throw invalid(file, errorText(error), { cause: error });
  });
  const tokenFile =
    parts.tokenFile === undefined ? undefined : path.resolve(folder, parts.tokenFile);
  const authenticate = await authenticatorOf(user, tokenFile);
  const fixed = {
    ...(cluster.tlsServerName !== undefined && { serverName: cluster.tlsServerName }),
    verifyServer: !cluster.skipTLSVerify,
  };
  let auth: AuthHeaders | undefined;
  let current: Credentials | undefined;
  /** The server refused the certificate: whoever renews it may have done so. */
  let isRefused = false;
  return {
    server: cluster.server,
    namespace: context.namespace ?? "default",
    source: `${file} (context ${context.name})`,
    credentials: async () => {
      const next = await authenticate.headers();
      if (isRefused) {
        isRefused = false;
        const fresh = await read().catch(() => files); // they may be missing for a moment
        if (!isDeepStrictEqual(fresh, files)) current = undefined;
        files = fresh;
      }
      if (!current || !auth || !sameAuth(auth, next)) {
        const [ca, cert, key] = files;
        const ownCert = next.cert === undefined ? cert : Buffer.from(next.cert);
        const ownKey = next.key === undefined ? key : Buffer.from(next.key);
        auth = next;
        current = {
          ...fixed,
          ...(ca && { ca }),
          ...(ownCert && { cert: ownCert }),
          ...(ownKey && { key: ownKey }),
          headers: next.headers,
        };
      }
      return current;
    },
    forget: () => {
      isRefused = true;
      authenticate.forget();
    },
  };
}

function sameAuth(a: AuthHeaders, b: AuthHeaders): boolean {
  return (
    a.cert === b.cert &&
    a.key === b.key &&
    a.headers["Authorization"] === b.headers["Authorization"]
  );
}

interface ParsedFile {
  readonly clusters: readonly Cluster[];
  readonly contexts: readonly Context[];
  readonly users: readonly User[];
  readonly currentContext: string | undefined;
  /** Token files by user: the library reads them once, and they change. */
  readonly tokenFiles: ReadonlyMap<string, string>;
}

async function parse(file: string, text: string): Promise<ParsedFile> {
  try {
    const document = (await readDocument(text)) as Readonly<Record<string, unknown>> | null;
    const rawUsers = Array.isArray(document?.["users"]) ? (document["users"] as RawUser[]) : [];
    const tokenFiles = new Map<string, string>();
    const users = rawUsers.map((entry) => {
      const { tokenFile, ...user } = entry.user ?? {};
      if (typeof tokenFile === "string") tokenFiles.set(entry.name, tokenFile);
      return { ...entry, user };
    });
    const current = document?.["current-context"];
    return {
      clusters: newClusters(document?.["clusters"]),
      contexts: newContexts(document?.["contexts"]),
      users: newUsers(users),
      currentContext: typeof current === "string" && current !== "" ? current : undefined,
      tokenFiles,
    };
  } catch (error) {
    throw invalid(file, errorText(error), { cause: error });
  }
}

interface RawUser {
  readonly name: string;
  readonly user?: { readonly tokenFile?: unknown };
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
): KipError {
  return new KipError("KUBECONFIG_INVALID", `Cannot use kubeconfig "${file}": ${reason}`, options);
}
