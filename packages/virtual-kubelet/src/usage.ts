/** What processes use at one moment; what is not known is absent. */
export interface Usage {
  /** When it was measured, milliseconds since the epoch. */
  readonly timeMs: number;
  /** Processor time since the start, nanoseconds. */
  readonly cpuNanoseconds?: number | undefined;
  /** Memory, file cache included. */
  readonly memoryBytes?: number | undefined;
  /** Memory without the file cache that can be dropped at once; what is held against a limit. */
  readonly workingSetBytes?: number | undefined;
}

/** What a container uses. */
export interface ContainerUsage extends Usage {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startTimeMs?: number | undefined;
}

/** Bytes that a pod has received and sent since its start. */
export interface NetworkUsage {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/** What a pod uses. */
export interface PodUsage {
  readonly uid: string;
  readonly containers: readonly ContainerUsage[];
  /** The pod as a whole. @default the sum of its containers */
  readonly total?: Usage | undefined;
  readonly network?: NetworkUsage | undefined;
}

/** What the pods of a node use; pods whose figures are not available are left out. */
export interface ProviderStats {
  readonly pods: readonly PodUsage[];
  /** The node as a whole. @default the sum of its pods */
  readonly node?: Usage | undefined;
}

/** How the probes of one kind of one container went since its pod was started. */
export interface ProbeCounts {
  /** UID of the pod. */
  readonly uid: string;
  readonly container: string;
  readonly kind: "Liveness" | "Readiness" | "Startup";
  readonly successful: number;
  readonly failed: number;
  /** Probes without a known outcome. @default 0 */
  readonly unknown?: number | undefined;
}
