import type { LogLimits } from "../logs/log-limits.ts";
import type { PodSandbox } from "./pod-sandbox.ts";

/** Something mounted into a container. */
export interface ContainerMount {
  /** `bind`: `source` is a file or directory of this machine; `tmpfs`: `source` is not used. @default "bind" */
  readonly type?: "bind" | "tmpfs" | undefined;
  readonly source: string;
  /** Absolute path in the container; made if it is missing. */
  readonly destination: string;
  readonly readOnly: boolean;
  /** Further mount options, for example `size=64m` or `noexec`. Binds are recursive and private unless said otherwise. */
  readonly options?: readonly string[] | undefined;
}

/** The numeric identity a process runs as. */
export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids: readonly number[];
}

/** What a container may use. Absent means no limit. */
export interface ContainerResources {
  /** Processor time limit in thousandths of a processor, 1 or more. */
  readonly cpuMilliLimit?: number | undefined;
  /** Weight against other containers, in thousandths of a processor. */
  readonly cpuMilliRequest?: number | undefined;
  /** Memory limit in bytes; the whole container is killed when it cannot be kept. */
  readonly memoryBytesLimit?: number | undefined;
  /** Huge pages by their size, both in bytes. What is not named stays as it is: without a limit at first. */
  readonly hugePages?:
    readonly { readonly pageBytes: number; readonly bytes: number }[] | undefined;
}

/** A device node that a container gets. */
export interface ContainerDevice {
  /** Absolute, in the container. */
  readonly path: string;
  readonly type: "c" | "b";
  readonly major: number;
  readonly minor: number;
  readonly fileMode: number;
  readonly uid: number;
  readonly gid: number;
  /** What the container may do with the device: `r`, `w` and `m` for making nodes of it. */
  readonly access: string;
}

/** A program of the machine that is run at a point of a container's life. */
export interface ContainerHook {
  /** @see https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md#posix-platform-hooks */
  readonly kind:
    "prestart" | "createRuntime" | "createContainer" | "startContainer" | "poststart" | "poststop";
  readonly path: string;
  readonly args?: readonly string[] | undefined;
  readonly env?: readonly string[] | undefined;
  /** Seconds. @default none */
  readonly timeout?: number | undefined;
}

/** Everything the runtime must know to run a container. */
export interface ContainerSpec {
  /** Unique on this machine: letters, digits, `_`, `-` and `.`, at most 64 characters. */
  readonly id: string;
  /** The pod's shared namespaces, from `createPodSandbox`. */
  readonly sandbox: PodSandbox;
  /** Free text the caller finds again in {@link ContainerState} (which container of which pod, which attempt). */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The root file system: a directory, usually a mounted overlay. The caller mounts and unmounts it. */
  readonly rootfs: string;
  /** The command and its arguments; at least one. A command without a slash is looked for in `PATH` of `env`. */
  readonly args: readonly string[];
  /** `NAME=value` entries. */
  readonly env: readonly string[];
  /** Absolute working directory; made if it is missing. */
  readonly cwd: string;
  readonly user: ContainerUser;
  /** Whether the container has a terminal; standard error then comes with standard output. */
  readonly tty: boolean;
  /** `closed`: reads end at once; `once`: open until the first attached client is done; `open`: stays open. */
  readonly stdin: "closed" | "once" | "open";
  readonly mounts: readonly ContainerMount[];
  /** Besides those that every container has. @default none */
  readonly devices?: readonly ContainerDevice[] | undefined;
  /** @default none */
  readonly hooks?: readonly ContainerHook[] | undefined;
  /** @default false */
  readonly readOnlyRootfs?: boolean | undefined;
  /** All capabilities and devices, nothing masked. @default false */
  readonly privileged?: boolean | undefined;
  /** Nothing of /proc and /sys is hidden or read-only, as for privileged ones. @default false */
  readonly isProcUnmasked?: boolean | undefined;
  /** Capabilities besides the usual ones, with or without `CAP_`; `ALL` for every one. */
  readonly addCapabilities?: readonly string[] | undefined;
  /** Capabilities taken away; `ALL` for every one that is not added. */
  readonly dropCapabilities?: readonly string[] | undefined;
  /** false sets the kernel's no-new-privileges flag. @default true */
  readonly allowPrivilegeEscalation?: boolean | undefined;
  /**
   * Which system calls it may make: those of containerd's default profile, all, or those of a profile, the JSON of an OCI
   * runtime's `linux.seccomp`. Privileged ones make all. @default all
   */
  readonly seccomp?: "RuntimeDefault" | "Unconfined" | { readonly profile: string } | undefined;
  readonly resources?: ContainerResources | undefined;
  /** -1000 to 1000. @default 0 */
  readonly oomScoreAdj?: number | undefined;
  /** Directory of its own that the container's output goes to, in files of CRI format; made if it is missing. */
  readonly logDirectory: string;
  /** @default {@link defaultLogLimits} */
  readonly logLimits?: LogLimits | undefined;
}
