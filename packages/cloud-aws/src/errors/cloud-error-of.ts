import { isSystemError } from "@kip/base";
import { CloudError, type CapacityScope } from "@kip/cloud";
import type { CallPlace } from "../ec2/ec2-calls.ts";
import { meaningOf, type ErrorMeaning, type Shortage } from "./error-table.ts";

/** Options of `kip iam print` for policies of persons, which kip itself does not need. */
export type PersonPolicy = "--image-build" | "--prices";

/** The call that failed. */
export interface FailedCall {
  /** Completes "Cannot …". */
  readonly purpose: string;
  readonly action: string;
  /** The service's name in policies. @default "ec2" */
  readonly service?: string | undefined;
  /** The policy that a person needs for the call, by its option of `kip iam print`. @default kip's own */
  readonly policy?: PersonPolicy | undefined;
  readonly place?: CallPlace | undefined;
}

/** Converts a failure of the SDK to an error of the closed set. */
export function cloudErrorOf(cause: unknown, call: FailedCall): CloudError {
  const awsCode = awsCodeOf(cause);
  const meaning = meaningOf(awsCode) ?? meaningWithoutCode(cause);
  const text = cause instanceof Error ? cause.message : String(cause);
  return new CloudError(meaning.code, `Cannot ${call.purpose}: ${text || awsCode}`, {
    cause,
    scope: scopeOf(meaning.shortage, call.place),
    remedy:
      remedies.find(([part]) => `${awsCode} ${text}`.includes(part))?.[1] ??
      remedyOf(meaning, awsCode, call),
    facts: { awsCode, action: call.action },
  });
}

/** The AWS code from which an error of this driver was made. Empty for other errors. */
export function awsCodeOf(error: unknown): string {
  if (CloudError.is(error)) return awsCodeOf(error.cause);
  return error instanceof Error ? error.name : "";
}

/** Converts the reason why an instance ended or did not start to an error. EC2 puts `Server.` or `Client.` before the code. */
export function stateReasonError(
  purpose: string,
  reason: { readonly code: string; readonly message: string },
  place: CallPlace,
): CloudError {
  const code = reason.code.replace(/^(Server|Client)\./, "");
  const meaning = meaningOf(code);
  const isShortage = meaning?.code === "CLOUD_NO_CAPACITY" || meaning?.code === "CLOUD_QUOTA";
  const text = reason.message === "" ? "it has ended" : `it has ended: ${reason.message}`;
  return new CloudError(
    isShortage ? meaning.code : "CLOUD_UNAVAILABLE",
    `Cannot ${purpose}: ${text}`,
    {
      scope: isShortage ? scopeOf(meaning.shortage, place) : undefined,
      remedy: /^Client\.(InternalError|InvalidKMSKey)/.test(reason.code) ? useKey : undefined,
      facts: { awsCode: reason.code },
    },
  );
}

function meaningWithoutCode(cause: unknown): ErrorMeaning {
  const status = (
    cause as { readonly $metadata?: { readonly httpStatusCode?: number } } | undefined
  )?.$metadata?.httpStatusCode;
  // A file of credentials or a token file from the configuration is missing or not readable.
  if (isSystemError(cause, "ENOENT", "EACCES")) return { code: "CLOUD_AUTH" };
  if (status === undefined ? isNetworkError(cause) : status >= 500)
    return { code: "CLOUD_UNAVAILABLE" };
  if (status === 429) return { code: "CLOUD_THROTTLED" };
  return { code: "CLOUD_UNKNOWN" };
}

function isNetworkError(cause: unknown): boolean {
  return isSystemError(
    cause,
    "ECONNREFUSED",
    "ECONNRESET",
    "EPIPE",
    "ETIMEDOUT",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "EAI_AGAIN",
  );
}

function scopeOf(shortage: Shortage | undefined, place: CallPlace | undefined): CapacityScope {
  if (!place) return {};
  const { instanceType, zone, launchType } = place;
  switch (shortage) {
    case "type, zone and market":
      return { instanceType, zone, launchType };
    case "type and zone":
      // A type that is not available as dedicated may be available on demand.
      return launchType === "dedicated"
        ? { instanceType, zone, launchType }
        : { instanceType, zone };
    case "zone":
      return { zone };
    case "dedicated hosts":
      return { instanceType, zone, launchType: "dedicated" };
    case "dedicated type":
      return { instanceType, launchType: "dedicated" };
    default:
      return {};
  }
}

/** EC2 accepts a launch before it opens the disk, and the reason names no key. */
const useKey =
  "If the account's disks are encrypted with a key of your own, allow kms:CreateGrant and the other rights to it: kip iam print --disk-key writes them into the policy";
/** Remedies by the action that AWS refuses. */
const remedies: readonly (readonly [string, string])[] = [
  [
    "ServiceLinkedRoleCreationNotPermitted",
    "Make the role that spot instances need, once for the account: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
  ],
  [
    "iam:PassRole",
    "Allow iam:PassRole of this role to kip's identity; kip iam print --pass-role writes it into the policy",
  ],
  // AWS refused this one before the actual call was sent.
  [
    "sts:AssumeRole",
    "Let the trust policy of kip's role name kip's ServiceAccount (docs/aws.md#credentials)",
  ],
];

function remedyOf(
  { code }: ErrorMeaning,
  awsCode: string,
  { action, service = "ec2", policy }: FailedCall,
): string | undefined {
  if (awsCode === "UnauthorizedOperation" || awsCode.startsWith("AccessDenied"))
    return policy === undefined
      ? `Allow ${service}:${action} to kip's identity; kip iam print writes the whole policy`
      : `Allow ${service}:${action} to your identity; kip iam print ${policy} writes the whole policy`;
  if (code === "CLOUD_AUTH") return "Give kip valid credentials of AWS (docs/aws.md)";
  if (code === "CLOUD_QUOTA") return "Ask AWS for a higher quota, or end what is not needed";
  return undefined;
}
