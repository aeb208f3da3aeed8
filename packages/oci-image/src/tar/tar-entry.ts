import { invalidImage } from "../errors.ts";
import { paxNumber } from "./pax-records.ts";
import { parseSparseList, type SparseSegment } from "./sparse-map.ts";
import type { DeviceNumbers, RawHeader } from "./tar-header.ts";

/** An archive entry with its extensions applied. Names are byte strings that were not validated yet. */
export interface TarEntry {
  readonly name: string;
  readonly kind: TarKind;
  /** Permission bits, with setuid, setgid and sticky. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Size of the content including holes, bytes. 0 if it is not a file. */
  readonly size: number;
  /** Seconds since 1970, possibly with a fraction. */
  readonly mtime: number;
  /** Target of a link. */
  readonly linkName: string;
  /** Extended attributes by name; names and values are byte strings. */
  readonly xattrs: ReadonlyMap<string, string>;
  readonly device: DeviceNumbers;
}

/** An entry, and how its content is stored. */
export interface StoredEntry {
  readonly entry: TarEntry;
  /** Number of bytes in the archive. */
  readonly stored: number;
  /** For a sparse file. `inContent` if the list precedes the stored bytes (PAX 1.0). */
  readonly segments?: readonly SparseSegment[] | "inContent" | undefined;
}

export type TarKind =
  "file" | "directory" | "symlink" | "hardlink" | "character-device" | "block-device" | "fifo";

/** The values in extended headers for the next entry. */
export interface Extensions {
  pax?: ReadonlyMap<string, string>;
  longName?: string;
  longLink?: string;
}

const none: ReadonlyMap<string, string> = new Map();
/** Longest name, bytes: Linux' PATH_MAX. */
const maxNameBytes = 4096;
const xattrPrefix = "SCHILY.xattr.";

const kinds: Readonly<Record<string, TarKind>> = {
  "0": "file",
  "7": "file",
  "1": "hardlink",
  "2": "symlink",
  "3": "character-device",
  "4": "block-device",
  "5": "directory",
  "6": "fifo",
  S: "file",
};

/** Combines a header and its extensions. PAX takes precedence over GNU, and GNU over ustar. @throws `IMAGE_INVALID` */
export function resolveEntry(header: RawHeader, extensions: Extensions): StoredEntry {
  const pax = extensions.pax ?? none;
  const value = (key: string, plain: number): number => {
    const text = pax.get(key);
    return text === undefined ? plain : paxNumber(key, text);
  };
  const kind = kindOf(header);
  const stored = kind === "file" ? value("size", header.size) : 0;
  const sparse = kind === "file" ? sparseOf(header, pax) : undefined;
  const size = sparse?.size ?? stored;
  const sparseName = sparse && pax.get("GNU.sparse.name");
  const name = sparseName ?? pax.get("path") ?? extensions.longName ?? header.name;
  const linkName = pax.get("linkpath") ?? extensions.longLink ?? header.linkName;
  if (name.length > maxNameBytes || linkName.length > maxNameBytes) {
    throw invalidImage(`a layer has a name longer than ${maxNameBytes} bytes`);
  }
  // v7 has no type for folders. Their names end with a slash.
  const isFolder = kind === "file" && name.endsWith("/");
  if (isFolder && size > 0) throw invalidImage("a layer has a folder with content");
  const entry: TarEntry = {
    name,
    kind: isFolder ? "directory" : kind,
    mode: header.mode,
    uid: value("uid", header.uid),
    gid: value("gid", header.gid),
    size,
    mtime: value("mtime", header.mtime),
    linkName,
    xattrs: pax.size === 0 ? none : xattrsOf(pax),
    device: header.device,
  };
  return { entry, stored, segments: sparse?.segments };
}

function xattrsOf(pax: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [key, value] of pax) {
    if (key.startsWith(xattrPrefix)) found.set(key.slice(xattrPrefix.length), value);
  }
  return found;
}

/** Handles GNU tar's four ways of storing a sparse file. Undefined for an ordinary file. */
function sparseOf(
  header: RawHeader,
  pax: ReadonlyMap<string, string>,
):
  { readonly size: number; readonly segments: readonly SparseSegment[] | "inContent" } | undefined {
  if (header.sparse || pax.size === 0) return header.sparse;
  const major = pax.get("GNU.sparse.major");
  const list = pax.get("GNU.sparse.map");
  if (major === undefined && list === undefined) return undefined;
  const sizeKey = major === undefined ? "GNU.sparse.size" : "GNU.sparse.realsize";
  const size = paxNumber(sizeKey, pax.get(sizeKey) ?? "");
  const version = `${major ?? "0"}.${pax.get("GNU.sparse.minor") ?? "0"}`;
  if (version === "1.0") return { size, segments: "inContent" };
  if (major !== undefined && major !== "0") {
    throw invalidImage(`a layer has a sparse file of unknown form ${JSON.stringify(version)}`);
  }
  return { size, segments: parseSparseList(list ?? "") };
}

function kindOf(header: RawHeader): TarKind {
  const kind = kinds[header.type];
  if (kind !== undefined) return kind;
  throw invalidImage(`a layer has an entry of unknown type ${JSON.stringify(header.type)}`);
}
