import { silentLogger, systemClock, type OptionValues } from "@kip/base";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";

/** The cluster that a command accesses. */
export interface Cluster {
  readonly client: ApiClient;
  /** Namespace of the context. */
  readonly namespace: string;
}

/**
 * Opens the cluster of `--kubeconfig` and `--context`. The caller has to close its client. @throws {K8sError}
 * `KUBECONFIG_INVALID`
 */
export async function openCluster(
  options: OptionValues,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Cluster> {
  const [path, context] = [options.text("kubeconfig"), options.text("context")];
  const config = await loadKubeConfig({ env, path, context });
  const client = createApiClient(config, {
    userAgent: "kipctl/0.1.0",
    logger: silentLogger,
    clock: systemClock,
  });
  return { client, namespace: config.namespace };
}
