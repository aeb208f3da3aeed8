/**
 * The parts of an OCI runtime configuration that Kip writes.
 *
 * @see https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md
 */
export interface OciSpec {
  readonly ociVersion: string;
  readonly process: OciProcess;
  readonly root: { readonly path: string; readonly readonly: boolean };
  readonly hostname?: string | undefined;
  readonly mounts: readonly OciMount[];
  readonly hooks?: Readonly<Record<string, readonly OciHook[]>> | undefined;
  readonly linux: OciLinux;
}

/** A program that the runtime runs at one point of the container's lifecycle. */
export interface OciHook {
  readonly path: string;
  readonly args?: readonly string[] | undefined;
  readonly env?: readonly string[] | undefined;
  readonly timeout?: number | undefined;
}

/** A process in a container: the main one, or one started by `exec`. */
export interface OciProcess {
  readonly terminal: boolean;
  /** Initial size of the terminal, in characters. */
  readonly consoleSize?: { readonly height: number; readonly width: number };
  readonly user: {
    readonly uid: number;
    readonly gid: number;
    readonly additionalGids: readonly number[];
  };
  readonly args: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
  readonly capabilities: Readonly<
    Record<"bounding" | "effective" | "permitted", readonly string[]>
  >;
  readonly noNewPrivileges: boolean;
  readonly oomScoreAdj: number;
  readonly rlimits: readonly {
    readonly type: string;
    readonly soft: number;
    readonly hard: number;
  }[];
}

export interface OciMount {
  readonly destination: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

export interface OciLinux {
  readonly namespaces: readonly { readonly type: string; readonly path?: string }[];
  /** @default "rprivate" */
  readonly rootfsPropagation?: "rshared" | "rslave";
  readonly uidMappings?: readonly OciIdMapping[];
  readonly gidMappings?: readonly OciIdMapping[];
  readonly cgroupsPath: string;
  readonly resources: {
    readonly devices: readonly {
      readonly allow: boolean;
      readonly type?: "c" | "b";
      readonly major?: number;
      readonly minor?: number;
      readonly access: string;
    }[];
    readonly memory?: { readonly limit: number };
    readonly cpu?: { readonly quota: number; readonly period: number };
    readonly unified: Readonly<Record<string, string>>;
  };
  readonly devices: readonly OciDevice[];
  readonly maskedPaths: readonly string[];
  readonly readonlyPaths: readonly string[];
  /** Absent: system calls are not filtered. */
  readonly seccomp?: OciSeccomp | undefined;
}

interface OciIdMapping {
  readonly containerID: number;
  readonly hostID: number;
  readonly size: number;
}

/** A filter of system calls. */
export interface OciSeccomp {
  readonly defaultAction: SeccompAction;
  readonly defaultErrnoRet: number;
  readonly architectures: readonly string[];
  readonly syscalls: readonly OciSystemCall[];
}

type SeccompAction = "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";

/** The action for these calls if all arguments match. */
export interface OciSystemCall {
  readonly names: readonly string[];
  readonly action: SeccompAction;
  readonly errnoRet?: number;
  readonly args?: readonly {
    readonly index: number;
    readonly value: number;
    readonly valueTwo?: number;
    readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_NE" | "SCMP_CMP_MASKED_EQ";
  }[];
}

/** A device node made in a container. */
export interface OciDevice {
  readonly path: string;
  readonly type: "c" | "b";
  readonly major: number;
  readonly minor: number;
  readonly fileMode: number;
  readonly uid: number;
  readonly gid: number;
}
