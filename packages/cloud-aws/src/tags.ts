import type { Tag } from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";

/** Tags of the driver's own. The first four are the original's. */
export const ownTags = {
  /** For people: what the console of EC2 shows. */
  name: "Name",
  /** The idempotency token of the launch: the UID of the Cell. */
  token: "Node",
  owner: "KipControllerID",
  nametag: "KipNametag",
  /** Name of the Cell, or of the volume. */
  cell: "KipCell",
  /** The idempotency token of a volume that outlives its instances; root disks have {@link ownTags.token}. */
  volume: "KipVolume",
  /** Ranges that routes lead to the instance, with spaces. */
  routes: "KipRoutes",
  /** The interface that these routes lead by: an instance that has ended no longer names it, and its routes name nothing else. */
  routedInterface: "KipRoutedInterface",
  /** How many addresses of IPv6 the launch has asked for; absent with none. */
  ipv6Count: "KipIPv6Count",
  /** When EC2 takes the instance back, RFC 3339, once that is known. */
  interruption: "KipInterruption",
} as const;

const ownKeys: readonly string[] = Object.values(ownTags);
/** Before a caller's key that EC2 or this driver keeps for itself. */
const escapePrefix = "kip-tag/";
const longestKey = 128;

/** Which tag has the token: that of instances, or that of volumes. */
export type TokenKey = typeof ownTags.token | typeof ownTags.volume;

/** What is marked with tags. */
export interface TaggedThing {
  readonly owner: string;
  readonly token: string;
  /** Name of the Cell or volume. */
  readonly cell: string;
  /** What the console of EC2 shows. */
  readonly name: string;
  readonly tags: Readonly<Record<string, string>>;
}

/**
 * The tags of an instance, its disk and its interface. Keys of the caller that begin with `aws:`, or are the driver's own, get a prefix.
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

/** The caller's tags, as EC2 has them. @throws as {@link toTags} */
export function callerTags(tags: Readonly<Record<string, string>>): Tag[] {
  return Object.entries(tags).map(([key, value]) => ({ Key: escaped(key), Value: value }));
}

/** What tags of this driver say; undefined for what another program made. */
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
