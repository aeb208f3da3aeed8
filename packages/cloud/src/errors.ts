import { CodedError, type CodedErrorOptions } from "@kip/base";

/**
 * The closed set of failures that a cloud can answer with.
 *
 * | code | meaning | worth repeating |
 * | --- | --- | --- |
 * | CLOUD_NOT_FOUND | the named object does not exist | no |
 * | CLOUD_NO_CAPACITY | none left now; `scope` names the type, zone and launch type | elsewhere at once, here later |
 * | CLOUD_QUOTA | the account's limit is reached | later |
 * | CLOUD_THROTTLED | too many calls | later |
 * | CLOUD_AUTH | credentials missing, wrong or not allowed | after a person has acted |
 * | CLOUD_INVALID_REQUEST | the request can never work | no |
 * | CLOUD_UNAVAILABLE | the cloud or the instance failed | later |
 * | CLOUD_UNKNOWN | not in the driver's table | not blindly |
 */
export const cloudErrorCodes = [
  "CLOUD_NOT_FOUND",
  "CLOUD_NO_CAPACITY",
  "CLOUD_QUOTA",
  "CLOUD_THROTTLED",
  "CLOUD_AUTH",
  "CLOUD_INVALID_REQUEST",
  "CLOUD_UNAVAILABLE",
  "CLOUD_UNKNOWN",
] as const;

/** @see cloudErrorCodes */
export type CloudErrorCode = (typeof cloudErrorCodes)[number];

/** What has run out. An absent field means any. */
export interface CapacityScope {
  readonly instanceType?: string | undefined;
  readonly zone?: string | undefined;
  readonly launchType?: string | undefined;
}

const retryableCodes: readonly CloudErrorCode[] = [
  "CLOUD_NO_CAPACITY",
  "CLOUD_QUOTA",
  "CLOUD_THROTTLED",
  "CLOUD_UNAVAILABLE",
];

/** Options of {@link CloudError}. The code determines whether a call is worth repeating. */
export interface CloudErrorOptions extends Omit<CodedErrorOptions, "retryable"> {
  /** What has run out. @default anything */
  readonly scope?: CapacityScope | undefined;
}

/**
 * A failure of a {@link CloudDriver}.
 *
 * @example
 * ```ts
 * import { CloudError } from "@kip/cloud";
 * import { createSimulatedCloud } from "@kip/cloud/simulated";
 *
 * await using driver = createSimulatedCloud().open({ owner: "me" });
 * try {
 *   await driver.resolveImage({ name: "unknown" });
 *   assert.fail("it was found");
 * } catch (error) {
 *   if (!CloudError.is(error, "CLOUD_NOT_FOUND")) throw error; // another code would not compile
 *   assert.equal(error.retryable, false);
 * }
 * ```
 */
export class CloudError extends CodedError<CloudErrorCode> {
  override readonly name = "CloudError";
  readonly scope: CapacityScope;

  constructor(code: CloudErrorCode, message: string, options: CloudErrorOptions = {}) {
    super(code, message, { ...options, retryable: retryableCodes.includes(code) });
    this.scope = options.scope ?? {};
  }
}

/** The code of a cloud failure, or `CLOUD_UNKNOWN` for any other error. */
export function cloudErrorCode(error: unknown): CloudErrorCode {
  return CloudError.is(error) ? error.code : "CLOUD_UNKNOWN";
}
