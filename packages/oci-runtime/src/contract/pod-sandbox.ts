/** What the containers of a pod share, as files that name Linux namespaces. */
export interface PodSandbox {
  readonly name: string;
  readonly hostname: string;
  /** Absent: the machine's own network. */
  readonly networkNamespace?: string | undefined;
  readonly ipcNamespace: string;
  /** Absent: the machine's own, with its host name. */
  readonly utsNamespace?: string | undefined;
  /** Absent: each container has its own. */
  readonly pidNamespace?: string | undefined;
  /** Directory shown as `/dev/shm` in every container. */
  readonly sharedMemoryDir?: string | undefined;
  /** cgroup v2 path below which each container has its own. */
  readonly cgroupParent: string;
}
