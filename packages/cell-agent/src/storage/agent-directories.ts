/** The agent's folders. `run` is on a tmpfs: Secrets never reach a disk, and its content does not survive a reboot. */
export interface AgentDirectories {
  readonly run: string;
  /** The disk that the pod fills. */
  readonly disk: string;
  /** The container runtime's own folder. */
  readonly runtime: string;
  /** File with the desired pod. */
  readonly desiredPod: string;
  /** File with the state of its containers. */
  readonly podState: string;
  /** File with an identity that kip has sent. */
  readonly identity: string;
  /** The pod's `/etc/hosts` and similar files. On the disk, because containers can write to them without a limit. */
  readonly podFiles: string;
  /** ConfigMaps, Secrets and projected volumes, on a separate tmpfs. */
  readonly secretVolumes: string;
  /** emptyDirs with medium Memory, each a tmpfs. */
  readonly memoryVolumes: string;
  /** A folder per run of a container, with the subPaths it mounts. */
  readonly subPaths: string;
  /** emptyDirs on disk. */
  readonly diskVolumes: string;
  /** Mounted disks. Only empty folders are ever removed below this one. */
  readonly disks: string;
  /** A folder per run of a container: root file system and termination message. */
  readonly containers: string;
  readonly images: string;
  /** A folder per container with a file per run. */
  readonly logs: string;
}

/** The folders below the two that the agent is given. */
export function agentDirectories(stateDir: string, runDir: string): AgentDirectories {
  return {
    run: runDir,
    disk: stateDir,
    runtime: `${runDir}/oci`,
    desiredPod: `${runDir}/desired-pod.json`,
    podState: `${runDir}/pod-state.json`,
    identity: `${runDir}/identity.json`,
    podFiles: `${stateDir}/pod`,
    secretVolumes: `${runDir}/files`,
    memoryVolumes: `${runDir}/memory`,
    subPaths: `${runDir}/subpaths`,
    diskVolumes: `${stateDir}/volumes`,
    disks: `${runDir}/disks`,
    containers: `${stateDir}/containers`,
    images: `${stateDir}/images`,
    logs: `${stateDir}/logs`,
  };
}
