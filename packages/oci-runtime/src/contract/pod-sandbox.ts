/** Which users and groups of the machine those of a pod are. */
export interface IdRange {
  /** The user and the group that 0 is. */
  readonly firstId: number;
  /** How many there are, from 0 on. */
  readonly idCount: number;
}

/** Users and groups of a pod's own. */
export interface UserNamespace extends IdRange {
  /** Names the namespace. */
  readonly file: string;
}

/** What the containers of a pod share, as files that name Linux namespaces. */
export interface PodSandbox {
  readonly name: string;
  readonly hostname: string;
  /** Absent: the machine's own network. */
  readonly networkNamespace?: string | undefined;
  readonly ipcNamespace: string;
  /** Absent: users and groups are the machine's own. */
  readonly userNamespace?: UserNamespace | undefined;
  /** Absent: the machine's own, with its host name. */
  readonly utsNamespace?: string | undefined;
  /** Absent: each container has its own. */
  readonly pidNamespace?: string | undefined;
  /** Directory shown as `/dev/shm` in every container. */
  readonly sharedMemoryDir?: string | undefined;
  /** cgroup v2 path below which each container has its own. */
  readonly cgroupParent: string;
}
