/**
 * Where the agent keeps what it has. `run` is on a tmpfs: secrets never reach a disk, and nothing in
 * it is believed after a restart of the machine.
 */
export interface AgentDirectories {
  readonly run: string;
  /** On the disk that the pod fills. */
  readonly disk: string;
  /** The container runtime's own. */
  readonly runtime: string;
  /** File with the desired pod. */
  readonly desiredPod: string;
  /** File with what is known of its containers. */
  readonly podState: string;
  /** File with an identity that kip has put. */
  readonly identity: string;
  /** `/etc/hosts` and its like of the pod. On the disk: containers can write to them, as much as they like. */
  readonly podFiles: string;
  /** ConfigMaps, Secrets, projected volumes: a tmpfs of their own. */
  readonly secretVolumes: string;
  /** emptyDirs with medium Memory, a tmpfs each. */
  readonly memoryVolumes: string;
  /** A directory per run of a container, with the subPaths it mounts. */
  readonly subPaths: string;
  /** emptyDirs on disk. */
  readonly diskVolumes: string;
  /** Disks of their own, mounted; nothing below is ever removed but empty directories. */
  readonly disks: string;
  /** A directory per run of a container: root file system and termination message. */
  readonly containers: string;
  readonly images: string;
  /** A directory per container with a file per run. */
  readonly logs: string;
}

/** The directories below the two the agent is given. */
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
