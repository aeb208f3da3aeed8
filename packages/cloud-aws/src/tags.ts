import type { Tag } from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";

/** The driver's own tags. The first four are the original's. */
export const ownTags = {
  /** Name for people, in EC2's console. */
  name: "Name",
  /** The idempotency token of the launch: the UID of the Cell. */
  token: "Node",
  owner: "KipControllerID",
  nametag: "KipNametag",
  /** Name of the Cell, or of the volume. */
  cell: "KipCell",
  /** The idempotency token of a volume that outlives its instances. Root disks have {@link ownTags.token}. */
  volume: "KipVolume",
  /** Ranges that are routed to the instance, separated by spaces. */
  routes: "KipRoutes",
  /** The interface of these routes. An ended instance no longer names its interface, and the routes name nothing else. */
  routedInterface: "KipRoutedInterface",
  /** How many IPv6 addresses the launch has asked for. Absent if none. */
  ipv6Count: "KipIPv6Count",
  /** When EC2 takes the instance back, RFC 3339, once known. */
  interruption: "KipInterruption",
} as const;

const ownKeys: readonly string[] = Object.values(ownTags);
/** Prefix of a caller's key that EC2 or this driver reserves. */
const escapePrefix = "kip-tag/";
const longestKey = 128;

/** The tag that has the token: of instances, or of volumes. */
export type TokenKey = typeof ownTags.token | typeof ownTags.volume;

/** A tagged instance or volume. */
export interface TaggedThing {
  readonly owner: string;
  readonly token: string;
  /** Name of the Cell or volume. */
  readonly cell: string;
  /** Name in EC2's console. */
  readonly name: string;
  readonly tags: Readonly<Record<string, string>>;
}

/**
 * The tags of an instance, its disk and its interface. The caller's keys get a prefix if they begin with `aws:` or are the
 * driver's own.
 *
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` for a key that is then longer than EC2 allows
 */
export function toTags(
  { owner, token, cell, name, tags }: TaggedThing,
  tokenKey: TokenKey = ownTags.token,
): Tag[] {
  const nametag = tags["kip-nametag"] ?? owner;
  return [
    { Key: ownTags.name, Value: name },
    { Key: tokenKey, Value: token },
    { Key: ownTags.owner, Value: owner },
    { Key: ownTags.nametag, Value: nametag },
    { Key: ownTags.cell, Value: cell },
    ...callerTags(tags),
  ];
}

/** The caller's tags in EC2's form. @throws as {@link toTags} */
export function callerTags(tags: Readonly<Record<string, string>>): Tag[] {
  return Object.entries(tags).map(([key, value]) => ({ Key: escaped(key), Value: value }));
}

/** Reads this driver's tags. Undefined for another program's resource. */
export function fromTags(
  list: readonly Tag[] = [],
  tokenKey: TokenKey = ownTags.token,
): TaggedThing | undefined {
  const all = new Map(list.map(({ Key = "", Value = "" }) => [Key, Value]));
  const owner = all.get(ownTags.owner);
  const token = all.get(tokenKey);
  if (owner === undefined || token === undefined) return undefined;
  const others = [...all]
    .filter(([key]) => !ownKeys.includes(key) && !/^aws:/i.test(key))
    .map(([key, value]) => [
      key.startsWith(escapePrefix) ? key.slice(escapePrefix.length) : key,
      value,
    ]);
  return {
    owner,
    token,
    cell: all.get(ownTags.cell) ?? "",
    name: all.get(ownTags.name) ?? "",
    tags: Object.fromEntries(others) as Record<string, string>,
  };
}

function escaped(key: string): string {
  const isReserved = ownKeys.includes(key) || /^aws:/i.test(key) || key.startsWith(escapePrefix);
  if (!isReserved) return key;
  const longer = `${escapePrefix}${key}`;
  if (longer.length <= longestKey) return longer;
  throw new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot set a tag: EC2 reserves the key "${key.slice(0, 32)}…", and it is too long for a prefix`,
  );
}
