/** Maps a pod's users and groups to those of the machine. */
export interface IdRange {
  /** The machine's user and group for ID 0. */
  readonly firstId: number;
  /** Number of IDs, from 0. */
  readonly idCount: number;
}

/** A pod's own user namespace. */
export interface UserNamespace extends IdRange {
  /** File that names the namespace. */
  readonly file: string;
}

/** The resources that a pod's containers share, as files that name Linux namespaces. */
export interface PodSandbox {
  readonly name: string;
  readonly hostname: string;
  /** Absent: the machine's own network. */
  readonly networkNamespace?: string | undefined;
  readonly ipcNamespace: string;
  /** Absent: the machine's own users and groups. */
  readonly userNamespace?: UserNamespace | undefined;
  /** Absent: the machine's own, including its host name. */
  readonly utsNamespace?: string | undefined;
  /** Absent: a separate one for each container. */
  readonly pidNamespace?: string | undefined;
  /** Directory that is mounted as `/dev/shm` in every container. */
  readonly sharedMemoryDir?: string | undefined;
  /** cgroup v2 path. Each container has a cgroup below it. */
  readonly cgroupParent: string;
}
