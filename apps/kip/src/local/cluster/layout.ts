import path from "node:path";
import type { OptionValues } from "@kip/base";

/** Host name by which pods reach the registry of the local cluster, as in `kip.local/demo:latest`. */
export const localRegistryHost = "kip.local";

/** Where `kip up` keeps its files. */
export interface LocalLayout {
  /** State of the local cluster. `kip down` removes it. */
  readonly stateDir: string;
  /** Programs and images. Kept until `kip down --purge`. */
  readonly cacheDir: string;
  readonly controlPlaneDir: string;
  readonly logDir: string;
  readonly machinesDir: string;
  /** In the cache, because templates outlive the cluster. */
  readonly templatesDir: string;
  /** In the cache. The EC2 server moto. */
  readonly motoDir: string;
  readonly registryDir: string;
  readonly dnsDir: string;
  readonly podLogDir: string;
  readonly providerConfig: string;
  readonly daemonLog: string;
  readonly providerLog: string;
  readonly daemonRecord: string;
  /** The user's kubeconfig as it was before the context was added. */
  readonly contextState: string;
}

/** The layout below the folders of `--state-dir` and `--cache-dir`. */
export function localLayout(options: OptionValues): LocalLayout {
  const stateDir = path.resolve(options.required("state-dir"));
  const cacheDir = path.resolve(options.required("cache-dir"));
  const below = (...parts: readonly string[]): string => path.join(stateDir, ...parts);
  return {
    stateDir,
    cacheDir,
    controlPlaneDir: below("control-plane"),
    logDir: below("logs"),
    machinesDir: below("cells"),
    templatesDir: path.join(cacheDir, "templates"),
    motoDir: path.join(cacheDir, "moto"),
    registryDir: below("registry"),
    dnsDir: below("dns"),
    podLogDir: below("pod-logs"),
    providerConfig: below("provider.yaml"),
    daemonLog: below("logs", "kip-up.log"),
    providerLog: below("logs", "kip.log"),
    daemonRecord: below("daemon.json"),
    contextState: below("previous-context"),
  };
}
