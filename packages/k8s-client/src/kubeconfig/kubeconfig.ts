import { readFile } from "node:fs/promises";
import path from "node:path";
import { errorText, isSystemError, systemClock, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";
import { inClusterConfig } from "./in-cluster.ts";
import { configFromFile } from "./kubeconfig-file.ts";

/** How to reach an API server and authenticate to it. */
export interface KubeConfig {
  /** For example `https://10.0.0.1:6443`. */
  readonly server: string;
  /** Namespace of the context. @default "default" */
  readonly namespace: string;
  /** The origin, for messages: a file and context, or `in-cluster`. */
  readonly source: string;
  /**
   * The current TLS material and headers. Called before each request, so that expired tokens are renewed. Returns the same
   * object as long as nothing has changed.
   */
  credentials(): Promise<Credentials>;
  /** Drops the cached credentials, if they are still those that the server refused. */
  forget?(refused: Credentials): void;
}

/** TLS material and headers for requests. */
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
 * Where {@link loadKubeConfig} looks: in `path`; otherwise in the files of `env.KUBECONFIG` if that is set, or in
 * `~/.kube/config`; otherwise in the cluster.
 */
export interface LoadKubeConfigOptions {
  /** A kubeconfig file. It must exist. */
  readonly path?: string | undefined;
  /**
   * Environment that provides `KUBECONFIG`, `HOME` and `KUBERNETES_SERVICE_HOST`/`_PORT`, and that exec plugins get. @default
   * {}
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A context of the file. @default its current context */
  readonly context?: string | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
}

/**
 * Finds the API server and its credentials (certificates, tokens, token files, exec plugins, in-cluster). If `KUBECONFIG` is a
 * list, the first file that exists is used. The home folder's file is then ignored, because it may name another cluster.
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
 * The text of a file. Undefined if the file does not exist. The home folder's file may belong to another user, as in a pod, and
 * is then ignored too. A file that was named must be readable: ignoring it could lead to another cluster.
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
