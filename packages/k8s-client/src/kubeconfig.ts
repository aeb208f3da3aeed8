/** How to reach and convince one API server. */
export interface KubeConfig {
  /** For example `https://10.0.0.1:6443`. */
  readonly server: string;
  /** Namespace of the context. @default "default" */
  readonly namespace: string;
  /** Where it came from, for messages: a file and context, or `in-cluster`. */
  readonly source: string;
  /** Current TLS material and headers; asked before each request, so that expired tokens are renewed. */
  credentials(): Promise<Credentials>;
}

/** What identifies us to the server and the server to us. */
export interface Credentials {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  readonly serverName?: string;
  /** false only if the kubeconfig says `insecure-skip-tls-verify`. */
  readonly verifyServer: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

/** Where {@link loadKubeConfig} looks: `path`, else `env.KUBECONFIG`, else `~/.kube/config`, else in-cluster. */
export interface LoadKubeConfigOptions {
  /** A kubeconfig file. It must exist. */
  readonly path?: string;
  /** Environment to read `KUBECONFIG`, `HOME` and `KUBERNETES_SERVICE_HOST`/`_PORT` from. @default {} */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A context of the file. @default its current context */
  readonly context?: string;
}

/**
 * Finds the API server and its credentials (certificates, tokens, token files, exec plugins, in-cluster).
 *
 * @throws {KipError} code `KUBECONFIG_INVALID` if there is none, or it cannot be used
 */
export function loadKubeConfig(options?: LoadKubeConfigOptions): Promise<KubeConfig> {
  void options;
  throw new Error("Not built yet");
}
