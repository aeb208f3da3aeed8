import type { Logger } from "@kip/base";

/** Options of {@link createPodSandbox}. */
export interface PodSandboxOptions {
  /** Directory (on tmpfs) for the namespaces' files; the same as the runtime's. */
  readonly runDir: string;
  /** Name of the sandbox and of its network namespace in `/run/netns`: letters, digits, `-`. @default "pod" */
  readonly name?: string;
  readonly hostname: string;
  /** IPv4 address of the pod. Absent: the pod uses the machine's own network. */
  readonly podIp?: string;
  /** Interface the pod's traffic goes through. @default the one with the default route */
  readonly hostInterface?: string;
  /** All containers see each other's processes. @default false */
  readonly shareProcessNamespace?: boolean;
  readonly logger: Logger;
}

/** What the containers of a pod share, as files that name Linux namespaces. */
export interface PodSandbox {
  readonly name: string;
  readonly hostname: string;
  /** Absent: the machine's own network. */
  readonly networkNamespace?: string;
  readonly ipcNamespace: string;
  readonly utsNamespace: string;
  /** Absent: each container has its own. */
  readonly pidNamespace?: string;
  /** Directory shown as `/dev/shm` in every container. */
  readonly sharedMemoryDir?: string;
  /** cgroup v2 path below which each container has its own. */
  readonly cgroupParent: string;
}

/**
 * Makes the namespaces, the network and the cgroup that a pod's containers share. Idempotent: called
 * again, also by a later life of the agent, it takes over what is there and completes it.
 * @throws {KipError} `POD_SANDBOX_FAILED`
 */
export function createPodSandbox(options: PodSandboxOptions): Promise<PodSandbox> {
  return Promise.reject(new Error(`not built yet: ${options.hostname}`));
}

/** Frees all that {@link createPodSandbox} made. Call it when no container is left. Idempotent. */
export function removePodSandbox(
  options: Pick<PodSandboxOptions, "runDir" | "name" | "logger">,
): Promise<void> {
  return Promise.reject(new Error(`not built yet: ${options.runDir}`));
}
