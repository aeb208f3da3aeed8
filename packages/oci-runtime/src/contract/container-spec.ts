import type { LogLimits } from "../logs/log-limits.ts";
import type { PodSandbox } from "./pod-sandbox.ts";

/** A mount in a container. */
export interface ContainerMount {
  /** `bind`: `source` is a file or directory of this machine. `tmpfs`: `source` is ignored. @default "bind" */
  readonly type?: "bind" | "tmpfs" | undefined;
  readonly source: string;
  /** Absolute path in the container. Created if missing. */
  readonly destination: string;
  readonly readOnly: boolean;
  /** More mount options, such as `size=64m` or `noexec`. Bind mounts are recursive and private by default. */
  readonly options?: readonly string[] | undefined;
}

/** Numeric user and groups of a process. */
export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids: readonly number[];
}

/** Resource limits of a container. Absent means no limit. */
export interface ContainerResources {
  /** Processor time limit in thousandths of a processor, 1 or more. */
  readonly cpuMilliLimit?: number | undefined;
  /** Weight relative to other containers, in thousandths of a processor. */
  readonly cpuMilliRequest?: number | undefined;
  /** Memory limit in bytes. If it is exceeded, all processes of the container are killed. */
  readonly memoryBytesLimit?: number | undefined;
  /** Limits of huge pages by page size, both in bytes. Sizes that are not listed keep their limit, which is initially none. */
  readonly hugePages?:
    readonly { readonly pageBytes: number; readonly bytes: number }[] | undefined;
}

/** A device node for a container. */
export interface ContainerDevice {
  /** Absolute path in the container. */
  readonly path: string;
  readonly type: "c" | "b";
  readonly major: number;
  readonly minor: number;
  readonly fileMode: number;
  readonly uid: number;
  readonly gid: number;
  /** Allowed operations on the device: `r`, `w`, and `m` for creating its node. */
  readonly access: string;
}

/** A program of the machine that runs at one point of a container's lifecycle. */
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

/** The complete specification of a container. */
export interface ContainerSpec {
  /** Unique on this machine: letters, digits, `_`, `-` and `.`, at most 64 characters. */
  readonly id: string;
  /** The pod's shared namespaces, from `createPodSandbox`. */
  readonly sandbox: PodSandbox;
  /** Free text that {@link ContainerState} returns, such as which container of which pod, and which attempt. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The root file system, a directory, usually a mounted overlay. The caller mounts and unmounts it. */
  readonly rootfs: string;
  /** The command and its arguments, at least one. A command without a slash is looked up in `PATH` of `env`. */
  readonly args: readonly string[];
  /** `NAME=value` entries. */
  readonly env: readonly string[];
  /** Absolute working directory. Created if missing. */
  readonly cwd: string;
  readonly user: ContainerUser;
  /** Whether the container has a terminal. Standard error is then part of standard output. */
  readonly tty: boolean;
  /** `closed`: reads return end of file; `once`: open until the first attached client disconnects; `open`: stays open. */
  readonly stdin: "closed" | "once" | "open";
  readonly mounts: readonly ContainerMount[];
  /** Additional device nodes. @default none */
  readonly devices?: readonly ContainerDevice[] | undefined;
  /** @default none */
  readonly hooks?: readonly ContainerHook[] | undefined;
  /** @default false */
  readonly readOnlyRootfs?: boolean | undefined;
  /** Grants all capabilities and devices, and masks nothing. @default false */
  readonly privileged?: boolean | undefined;
  /** Whether /proc and /sys are completely visible and writable, as for privileged containers. @default false */
  readonly isProcUnmasked?: boolean | undefined;
  /** Capabilities in addition to the default ones, with or without `CAP_`. `ALL` means all. */
  readonly addCapabilities?: readonly string[] | undefined;
  /** Capabilities to remove. `ALL` means all except those added by name. */
  readonly dropCapabilities?: readonly string[] | undefined;
  /** Whether processes may gain privileges. false sets the kernel's no-new-privileges flag. @default true */
  readonly allowPrivilegeEscalation?: boolean | undefined;
  /**
   * Which system calls it may make: those of containerd's default profile, all, or those of the given profile (the JSON of
   * `linux.seccomp` in an OCI runtime configuration). Privileged containers may make all. @default all
   */
  readonly seccomp?: "RuntimeDefault" | "Unconfined" | { readonly profile: string } | undefined;
  readonly resources?: ContainerResources | undefined;
  /** -1000 to 1000. @default 0 */
  readonly oomScoreAdj?: number | undefined;
  /** The container's own directory for its output, in files of CRI format. Created if missing. */
  readonly logDirectory: string;
  /** @default {@link defaultLogLimits} */
  readonly logLimits?: LogLimits | undefined;
}
