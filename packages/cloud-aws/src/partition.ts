const partitions: readonly (readonly [RegExp, string])[] = [
  [/^us-gov-/, "aws-us-gov"],
  [/^cn-/, "aws-cn"],
  [/^eusc-/, "aws-eusc"],
  [/^us-iso-/, "aws-iso"],
  [/^us-isob-/, "aws-iso-b"],
  [/^eu-isoe-/, "aws-iso-e"],
  [/^us-isof-/, "aws-iso-f"],
];

/** The partition of a region. Credentials of one partition are not valid in another. */
export function partitionOf(region: string): string {
  return partitions.find(([pattern]) => pattern.test(region))?.[1] ?? "aws";
}
