import { partitionOf } from "../partition.ts";

/** A private ECR registry, parsed from its host name. */
export interface EcrHost {
  readonly account: string;
  readonly region: string;
  readonly partition: string;
  readonly isFips: boolean;
  /** Whether its name also has IPv6 addresses. */
  readonly isDualStack: boolean;
}

/** Suffixes of the host names: the partitions that use them, and whether these names are dual-stack. */
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
 * Parses the host of an image's name as a private ECR registry. Undefined for another registry.
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
