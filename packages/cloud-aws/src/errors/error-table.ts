import type { CloudErrorCode } from "@kip/cloud";

/** The scope of a shortage. Another choice of a named part could avoid the shortage. */
export type Shortage =
  "type, zone and market" | "type and zone" | "zone" | "dedicated hosts" | "dedicated type";

/** The meaning of an EC2 error code. */
export interface ErrorMeaning {
  readonly code: CloudErrorCode;
  readonly shortage?: Shortage | undefined;
}

/**
 * EC2's error codes, from "Error codes for the Amazon EC2 API" and the common errors of AWS' query APIs, and those of the EBS
 * direct API. Codes that are not listed follow {@link patterns}.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
 */
const named: Readonly<Record<string, ErrorMeaning>> = {
  // No capacity left
  InsufficientInstanceCapacity: short("type, zone and market"),
  InsufficientCapacity: short("type, zone and market"),
  SpotMaxPriceTooLow: short("type, zone and market"),
  InsufficientHostCapacity: short("dedicated hosts"),
  InsufficientCapacityOnHost: short("dedicated hosts"),
  InsufficientFreeAddressesInSubnet: short("zone"),
  InsufficientAddressCapacity: short("zone"),
  InsufficientVolumeCapacity: short("zone"),
  VolumeTypeNotAvailableInZone: short("zone"),
  Unsupported: short("type and zone"),
  // Another zone may have hosts that this one lacks, such as those of Macs.
  UnsupportedHostConfiguration: short("dedicated hosts"),
  // No host takes such an instance in any zone.
  InvalidHostConfiguration: short("dedicated type"),
  UnsupportedInstanceTypeOnHost: short("dedicated type"),

  // Limits of the account
  InstanceLimitExceeded: { code: "CLOUD_QUOTA" },
  VcpuLimitExceeded: { code: "CLOUD_QUOTA" },
  MaxSpotInstanceCountExceeded: { code: "CLOUD_QUOTA" },
  HostLimitExceeded: { code: "CLOUD_QUOTA" },
  VolumeLimitExceeded: { code: "CLOUD_QUOTA" },
  MaxIOPSLimitExceeded: { code: "CLOUD_QUOTA" },
  SecurityGroupLimitExceeded: { code: "CLOUD_QUOTA" },
  RulesPerSecurityGroupLimitExceeded: { code: "CLOUD_QUOTA" },
  ResourceLimitExceeded: { code: "CLOUD_QUOTA" },
  AttachmentLimitExceeded: { code: "CLOUD_QUOTA" },
  PrivateIpAddressLimitExceeded: { code: "CLOUD_QUOTA" },
  ServiceQuotaExceededException: { code: "CLOUD_QUOTA" },
  ConcurrentLimitExceededException: { code: "CLOUD_QUOTA" },

  // Too many calls
  RequestLimitExceeded: { code: "CLOUD_THROTTLED" },
  Throttling: { code: "CLOUD_THROTTLED" },
  ThrottlingException: { code: "CLOUD_THROTTLED" },
  ThrottledException: { code: "CLOUD_THROTTLED" },
  RequestThrottled: { code: "CLOUD_THROTTLED" },
  RequestThrottledException: { code: "CLOUD_THROTTLED" },
  TooManyRequestsException: { code: "CLOUD_THROTTLED" },
  EC2ThrottledException: { code: "CLOUD_THROTTLED" },
  VolumeModificationRateExceeded: { code: "CLOUD_THROTTLED" },
  VolumeModificationSizeLimitExceeded: { code: "CLOUD_QUOTA" },
  IncorrectModificationState: { code: "CLOUD_THROTTLED" },
  ConcurrentTagAccess: { code: "CLOUD_THROTTLED" },

  // Authentication and authorization
  AuthFailure: { code: "CLOUD_AUTH" },
  UnauthorizedOperation: { code: "CLOUD_AUTH" },
  AccessDenied: { code: "CLOUD_AUTH" },
  AccessDeniedException: { code: "CLOUD_AUTH" },
  Blocked: { code: "CLOUD_AUTH" },
  OptInRequired: { code: "CLOUD_AUTH" },
  PendingVerification: { code: "CLOUD_AUTH" },
  InvalidClientTokenId: { code: "CLOUD_AUTH" },
  InvalidSecurity: { code: "CLOUD_AUTH" },
  UnrecognizedClientException: { code: "CLOUD_AUTH" },
  SignatureDoesNotMatch: { code: "CLOUD_AUTH" },
  IncompleteSignature: { code: "CLOUD_AUTH" },
  MissingAuthenticationToken: { code: "CLOUD_AUTH" },
  RequestExpired: { code: "CLOUD_AUTH" },
  ExpiredToken: { code: "CLOUD_AUTH" },
  ExpiredTokenException: { code: "CLOUD_AUTH" },
  CredentialsProviderError: { code: "CLOUD_AUTH" },
  TokenProviderError: { code: "CLOUD_AUTH" },
  // From STS, which exchanges a ServiceAccount's token.
  InvalidIdentityTokenException: { code: "CLOUD_AUTH" },
  IDPRejectedClaimException: { code: "CLOUD_AUTH" },
  RegionDisabledException: { code: "CLOUD_AUTH" },
  IDPCommunicationErrorException: { code: "CLOUD_UNAVAILABLE" },

  // Things that do not exist
  "InvalidAMIID.Malformed": { code: "CLOUD_NOT_FOUND" },
  "InvalidAMIID.Unavailable": { code: "CLOUD_NOT_FOUND" },
  "InvalidInstanceID.Malformed": { code: "CLOUD_NOT_FOUND" },
  "InvalidVolumeID.Malformed": { code: "CLOUD_NOT_FOUND" },
  "InvalidParameterValue.VolumeID": { code: "CLOUD_NOT_FOUND" },
  ResourceNotFoundException: { code: "CLOUD_NOT_FOUND" },

  // Failures of the cloud
  InternalError: { code: "CLOUD_UNAVAILABLE" },
  InternalFailure: { code: "CLOUD_UNAVAILABLE" },
  InternalErrorException: { code: "CLOUD_UNAVAILABLE" },
  InternalServerException: { code: "CLOUD_UNAVAILABLE" },
  ServerInternal: { code: "CLOUD_UNAVAILABLE" },
  ServiceUnavailable: { code: "CLOUD_UNAVAILABLE" },
  Unavailable: { code: "CLOUD_UNAVAILABLE" },
  TimeoutError: { code: "CLOUD_UNAVAILABLE" },
  InsufficientReservedInstanceCapacity: { code: "CLOUD_UNAVAILABLE" },
  IncorrectInstanceState: { code: "CLOUD_UNAVAILABLE" },
  IncorrectState: { code: "CLOUD_UNAVAILABLE" },

  // Requests that can never succeed
  "InvalidInstanceType.NotFound": { code: "CLOUD_INVALID_REQUEST" },
  IdempotentInstanceTerminated: { code: "CLOUD_INVALID_REQUEST" },
  IdempotentParameterMismatch: { code: "CLOUD_INVALID_REQUEST" },
  OperationNotPermitted: { code: "CLOUD_INVALID_REQUEST" },
  VolumeInUse: { code: "CLOUD_INVALID_REQUEST" },
  VPCIdNotSpecified: { code: "CLOUD_INVALID_REQUEST" },
  ValidationError: { code: "CLOUD_INVALID_REQUEST" },
  ValidationException: { code: "CLOUD_INVALID_REQUEST" },
  ConflictException: { code: "CLOUD_INVALID_REQUEST" },
  TagLimitExceeded: { code: "CLOUD_INVALID_REQUEST" },
};

const patterns: readonly (readonly [RegExp, ErrorMeaning])[] = [
  [/\.NotFound$/, { code: "CLOUD_NOT_FOUND" }],
  [/LimitExceeded$/, { code: "CLOUD_QUOTA" }],
  // For example AuthFailure.ServiceLinkedRoleCreationNotPermitted, for an account's first spot instance.
  [/^(AuthFailure|UnauthorizedOperation)\./, { code: "CLOUD_AUTH" }],
  [/^(Invalid|Missing|Unknown|Malformed|UnsupportedOperation)/, { code: "CLOUD_INVALID_REQUEST" }],
];

/** Meaning of an EC2 error code. Undefined if neither the table nor a pattern has it. */
export function meaningOf(code: string): ErrorMeaning | undefined {
  if (Object.hasOwn(named, code)) return named[code];
  return patterns.find(([pattern]) => pattern.test(code))?.[1];
}

function short(shortage: Shortage): ErrorMeaning {
  return { code: "CLOUD_NO_CAPACITY", shortage };
}
