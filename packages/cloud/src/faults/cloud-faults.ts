import type { CapacityScope, CloudErrorCode } from "../errors.ts";
import type { CloudOperation } from "../operations.ts";

/** A delay for some launches. */
export interface SlowLaunch {
  /** @default every type */
  readonly instanceType?: string | undefined;
  /** Minimum time from the request until the instance runs, milliseconds. */
  readonly ms: number;
}

/** How long the cloud refuses calls. With both limits, until either is reached. */
export interface Throttling {
  /** How many calls it refuses. @default no limit */
  readonly calls?: number | undefined;
  /** Time in which it refuses calls, milliseconds. @default no limit */
  readonly ms?: number | undefined;
}

/** A failure of calls, either instead of their effect or after it. */
export interface CloudFault {
  readonly operation: CloudOperation;
  readonly code: CloudErrorCode;
  /** How many calls fail. @default 1 */
  readonly calls?: number | undefined;
  /** "before": the call had no effect. "after": the call had its effect, but its answer is lost. @default "before" */
  readonly moment?: "before" | "after" | undefined;
}

/**
 * Failures of a cloud that a person or a test causes on purpose. They apply to all handles on the same cloud, in any process.
 * They are not part of the port, and product code does not use them.
 *
 * Each call resolves once the fault is in force.
 */
export interface CloudFaults {
  /**
   * New launches in this scope fail with `CLOUD_NO_CAPACITY` and this scope, until it is lifted. An empty scope means the whole
   * zone. Existing instances are not affected: a launch with their token still returns them.
   */
  noCapacity(scope: CapacityScope): Promise<void>;
  /** Lifts {@link CloudFaults.noCapacity} of exactly this scope. */
  restoreCapacity(scope: CapacityScope): Promise<void>;
  /** New launches are slow. A second call for the same type replaces the first. */
  slowLaunch(slow: SlowLaunch): Promise<void>;
  /** Calls of all handles together fail with `CLOUD_THROTTLED`. */
  throttle(throttling: Throttling): Promise<void>;
  /** The next calls of one operation fail. */
  fail(fault: CloudFault): Promise<void>;
  /**
   * The instance ends now, by itself.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND`
   */
  kill(instanceId: string): Promise<void>;
  /**
   * The instance gets a notice now and ends by itself after `noticeMs` milliseconds, even if this process has ended by then.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND`
   */
  interrupt(instanceId: string, noticeMs: number): Promise<void>;
  /** Lifts all faults except notices that were already given. */
  clear(): Promise<void>;
}
