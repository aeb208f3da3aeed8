import { invalidImage } from "../errors.ts";
import { paxNumber } from "./pax-records.ts";
import type { RawHeader } from "./tar-header.ts";

/** An entry of an archive, its extensions resolved. Names are byte strings, not yet judged. */
export interface TarEntry {
  readonly name: string;
  readonly kind: TarKind;
  /** Permission bits with setuid, setgid and sticky. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Bytes of content; 0 for all but files. */
  readonly size: number;
  /** Seconds since 1970, with a fraction. */
  readonly mtime: number;
  /** Target of a link. */
  readonly linkName: string;
  /** Names of the extended attributes that the archive has for the entry. */
  readonly xattrs: readonly string[];
}

export type TarKind =
  "file" | "directory" | "symlink" | "hardlink" | "character-device" | "block-device" | "fifo";

/** What extended headers say about the entry that follows them. */
export interface Extensions {
  pax?: ReadonlyMap<string, string>;
  longName?: string;
  longLink?: string;
}

/** Longest name, bytes: PATH_MAX of Linux. */
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
};

/** Puts a header and its extensions together: PAX before GNU before ustar. @throws `IMAGE_INVALID` */
export function resolveEntry(header: RawHeader, extensions: Extensions): TarEntry {
  const pax = extensions.pax ?? new Map<string, string>();
  const value = (key: string, plain: number): number => {
    const text = pax.get(key);
    return text === undefined ? plain : paxNumber(key, text);
  };
  const kind = kindOf(header, pax);
  const size = kind === "file" ? value("size", header.size) : 0;
  const name = pax.get("path") ?? extensions.longName ?? header.name;
  const linkName = pax.get("linkpath") ?? extensions.longLink ?? header.linkName;
  if (name.length > maxNameBytes || linkName.length > maxNameBytes) {
    throw invalidImage(`a layer has a name longer than ${maxNameBytes} bytes`);
  }
  // v7 has no type for folders, only the slash at the end of the name.
  const isFolder = kind === "file" && name.endsWith("/");
  if (isFolder && size > 0) throw invalidImage("a layer has a folder with content");
  return {
    name,
    kind: isFolder ? "directory" : kind,
    mode: header.mode,
    uid: value("uid", header.uid),
    gid: value("gid", header.gid),
    size,
    mtime: value("mtime", header.mtime),
    linkName,
    xattrs: [...pax.keys()]
      .filter((key) => key.startsWith(xattrPrefix))
      .map((key) => key.slice(xattrPrefix.length)),
  };
}

function kindOf(header: RawHeader, pax: ReadonlyMap<string, string>): TarKind {
  if (header.type === "S" || [...pax.keys()].some((key) => key.startsWith("GNU.sparse"))) {
    throw invalidImage("a layer has a sparse file, which is not supported yet");
  }
  const kind = kinds[header.type];
  if (kind !== undefined) return kind;
  throw invalidImage(`a layer has an entry of unknown type ${JSON.stringify(header.type)}`);
}
