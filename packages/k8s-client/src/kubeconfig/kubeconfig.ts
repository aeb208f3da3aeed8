import { readFile } from "node:fs/promises";
import path from "node:path";
import { errorText, isSystemError, systemClock, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import { inClusterConfig } from "./in-cluster.ts";
import { configFromFile } from "./kubeconfig-file.ts";

/** How to reach one API server and authenticate to it. */
export interface KubeConfig {
  /** For example `https://10.0.0.1:6443`. */
  readonly server: string;
  /** Namespace of the context. @default "default" */
  readonly namespace: string;
  /** Where it came from, for messages: a file and context, or `in-cluster`. */
  readonly source: string;
  /**
   * Current TLS material and headers; asked before each request, so that expired tokens are
   * renewed. The same object as long as nothing changed.
   */
  credentials(): Promise<Credentials>;
  /** Drops what is cached if it is still what the server refused. */
  forget?(refused: Credentials): void;
}

/** TLS material and headers of our requests. */
export interface Credentials {
  readonly ca?: Buffer | undefined;
  readonly cert?: Buffer | undefined;
  readonly key?: Buffer | undefined;
  readonly serverName?: string | undefined;
  /** false only if the kubeconfig says `insecure-skip-tls-verify`. */
  readonly verifyServer: boolean;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
}

/**
 * Where {@link loadKubeConfig} looks: `path`; else the files of `env.KUBECONFIG` if that is set, or
 * `~/.kube/config`; else in-cluster.
 */
export interface LoadKubeConfigOptions {
  /** A kubeconfig file. It must exist. */
  readonly path?: string | undefined;
  /**
   * Environment to read `KUBECONFIG`, `HOME` and `KUBERNETES_SERVICE_HOST`/`_PORT` from; exec plugins get
   * it too. @default {}
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A context of the file. @default its current context */
  readonly context?: string | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
}

/**
 * Finds the API server and its credentials (certificates, tokens, token files, exec plugins, in-cluster).
 * Of a `KUBECONFIG` list the first file that exists is read; the home folder's file is not read then,
 * as it may name another cluster.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID` if there is none, or it cannot be used
 */
export async function loadKubeConfig(options: LoadKubeConfigOptions = {}): Promise<KubeConfig> {
  const { env = {}, clock = systemClock } = options;
  const listed = env["KUBECONFIG"]?.split(path.delimiter).filter((file) => file !== "") ?? [];
  const home = env["HOME"] === undefined ? [] : [path.join(env["HOME"], ".kube", "config")];
  const candidates =
    options.path !== undefined ? [options.path] : listed.length > 0 ? listed : home;
  for (const file of candidates) {
    const text = await readIfPresent(file, { isNamed: candidates !== home });
    if (text === undefined) continue;
    const { context } = options;
    return configFromFile({ file, text, context, env, clock });
  }
  const inCluster = options.path === undefined ? await inClusterConfig(env, { clock }) : undefined;
  if (inCluster) return inCluster;
  throw new K8sError(
    "KUBECONFIG_INVALID",
    candidates.length === 0
      ? "Cannot find a Kubernetes cluster: no kubeconfig is given and the program does not run in a pod"
      : `Cannot read kubeconfig "${candidates.join('", "')}": there is no such file`,
    { remedy: "Name a kubeconfig file with --kubeconfig or KUBECONFIG" },
  );
}

/**
 * The text of a file; undefined if there is none. The file of the home folder may also be another user's: in a pod it is
 * not meant then. One that was named is: going on without it could lead to another cluster.
 *
 * @throws {K8sError} code `KUBECONFIG_INVALID`
 */
async function readIfPresent(
  file: string,
  { isNamed }: { readonly isNamed: boolean },
): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    if (isSystemError(cause, "ENOENT", "ENOTDIR") || !isNamed) return undefined;
    const message = `Cannot read kubeconfig "${file}": ${errorText(cause)}`;
    throw new K8sError("KUBECONFIG_INVALID", message, { cause });
  }
}
