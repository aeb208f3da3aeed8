import path from "node:path";

/** Where `kip up` keeps things. */
export interface LocalLayout {
  /** State of the running try-out cluster; `kip down` removes it. */
  readonly stateDir: string;
  /** Binaries and images; kept until `kip down --purge`. */
  readonly cacheDir: string;
  readonly controlPlaneDir: string;
  readonly logDir: string;
  readonly machinesDir: string;
  readonly registryDir: string;
  readonly podLogDir: string;
  readonly providerConfig: string;
  readonly providerKubeconfig: string;
  readonly daemonLog: string;
  readonly daemonRecord: string;
}

/** The layout below two directories. */
export function localLayout(stateDir: string, cacheDir: string): LocalLayout {
  const below = (...parts: readonly string[]): string => path.join(stateDir, ...parts);
  return {
    stateDir,
    cacheDir,
    controlPlaneDir: below("control-plane"),
    logDir: below("logs"),
    machinesDir: below("cells"),
    registryDir: below("registry"),
    podLogDir: below("pod-logs"),
    providerConfig: below("provider.yaml"),
    providerKubeconfig: below("kip.kubeconfig"),
    daemonLog: below("logs", "kip-up.log"),
    daemonRecord: below("daemon.json"),
  };
}
