import type { CapacityScope, CloudErrorCode } from "../errors.ts";
import type { CloudOperation } from "../operations.ts";

/** Which launches are slow, and by how much. */
export interface SlowLaunch {
  /** Every type, if it is missing. */
  readonly instanceType?: string | undefined;
  /** Time from the request until the instance runs, at least; milliseconds. */
  readonly ms: number;
}

/** How long the cloud refuses calls; with both limits, until either is reached. */
export interface Throttling {
  /** How many calls it refuses. @default no limit */
  readonly calls?: number | undefined;
  /** For how long it does, milliseconds. @default no limit */
  readonly ms?: number | undefined;
}

/** What a call is answered instead of being done, or although it was done. */
export interface CloudFault {
  readonly operation: CloudOperation;
  readonly code: CloudErrorCode;
  /** How many calls it hits. @default 1 */
  readonly calls?: number | undefined;
  /**
   * "before": nothing was done; "after": it was done, and the answer is lost. @default "before"
   */
  readonly moment?: "before" | "after" | undefined;
}

/**
 * What a person or a test can make a cloud do that it does on its own only now and then. It holds for
 * every handle on the same cloud, in any process, and is not part of the port: no product code asks for it.
 *
 * Each call resolves once what it told is in force.
 */
export interface CloudFaults {
  /**
   * New launches of this scope fail with `CLOUD_NO_CAPACITY`, whose scope is this one, until it is lifted. An empty scope
   * is the whole zone. Instances that exist are not touched: their tokens still give them.
   */
  noCapacity(scope: CapacityScope): Promise<void>;
  /** Lifts {@link CloudFaults.noCapacity} of exactly this scope. */
  restoreCapacity(scope: CapacityScope): Promise<void>;
  /** New launches take long; a second call for the same type replaces the first. */
  slowLaunch(slow: SlowLaunch): Promise<void>;
  /** Calls are answered with `CLOUD_THROTTLED`, of all handles together. */
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
   * The instance gets a notice now and ends by itself after `noticeMs` milliseconds, whichever process is there to see it.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND`
   */
  interrupt(instanceId: string, noticeMs: number): Promise<void>;
  /** Lifts everything but notices that were given. */
  clear(): Promise<void>;
}
