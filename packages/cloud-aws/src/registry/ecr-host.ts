import { partitionOf } from "../partition.ts";

/** A private registry of ECR, as its name says. */
export interface EcrHost {
  readonly account: string;
  readonly region: string;
  readonly partition: string;
  readonly isFips: boolean;
  /** Its name has IPv6 addresses, too. */
  readonly isDualStack: boolean;
}

/** Ends of the names: which partitions have them, and whether they are those of names with both kinds of addresses. */
const domains: Readonly<
  Record<string, { readonly partitions: readonly string[]; readonly isDualStack?: true }>
> = {
  "amazonaws.com": { partitions: ["aws", "aws-us-gov"] },
  "amazonaws.com.cn": { partitions: ["aws-cn"] },
  "amazonaws.eu": { partitions: ["aws-eusc"] },
  "c2s.ic.gov": { partitions: ["aws-iso"] },
  "sc2s.sgov.gov": { partitions: ["aws-iso-b"] },
  "cloud.adc-e.uk": { partitions: ["aws-iso-e"] },
  "csp.hci.ic.gov": { partitions: ["aws-iso-f"] },
  "on.aws": { partitions: ["aws", "aws-us-gov"], isDualStack: true },
  "on.amazonwebservices.com.cn": { partitions: ["aws-cn"], isDualStack: true },
};

/**
 * What the host in an image's name says of a private registry of ECR; undefined for another registry.
 *
 * @see https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
 * @see https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-requests.html
 */
export function readEcrHost(host: string): EcrHost | undefined {
  const match = /^(\d{12})\.dkr([.-])ecr(-fips)?\.([a-z]{2,4}(?:-[a-z]+){1,3}-\d{1,2})\.(.+)$/.exec(
    host,
  );
  if (!match) return undefined;
  const [, account = "", separator, fips, region = "", end = ""] = match;
  const domain = Object.hasOwn(domains, end) ? domains[end] : undefined;
  const partition = partitionOf(region);
  const isDualStack = domain?.isDualStack === true;
  if (domain?.partitions.includes(partition) !== true) return undefined;
  if (isDualStack !== (separator === "-")) return undefined;
  return { account, region, partition, isFips: fips !== undefined, isDualStack };
}
