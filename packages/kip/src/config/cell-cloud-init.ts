import path from "node:path";
import { gzipSync } from "node:zlib";
import { cloudLimits } from "@kip/cloud";
import { checkCloudConfig, cloudConfigKeys, maxUserDataBytes } from "@kip/cloud-init";

/** The operator's cloud-config for each cell: the keys that cells support, as written. */
export type CellCloudInit = Readonly<Record<string, unknown>>;

/** A note on a file, with its line. */
export interface FileNote {
  /** From 1. Undefined if the note is about the whole file. */
  readonly line: number | undefined;
  readonly message: string;
  readonly remedy: string | undefined;
}

/** Result of {@link readCellCloudInit}. */
export interface CheckedCellCloudInit {
  /** Undefined if there are problems. */
  readonly cloudInit: CellCloudInit | undefined;
  readonly problems: readonly FileNote[];
  readonly notices: readonly FileNote[];
}

/** Folders and files that a cell's own programs need unchanged. */
const ownPlaces = [
  "/etc/hostname",
  "/etc/inittab",
  "/etc/machine-id",
  "/etc/resolv.conf",
  "/run/itzo",
  "/run/kip",
  "/usr/lib/kip",
  "/var/lib/itzo",
  "/var/lib/milpa-cloudinit",
];

/** Bytes that a cell's identity adds to its user data, compressed or not. */
const identityBytes = 5000;

const remedy = "Let its commands fetch what is large, or build it into the image of the cells";

/**
 * Reads the file of `cells.cloudInitFile` like cells will, and finds all problems: invalid cloud-config, files that would
 * replace something that a cell needs, and a size that is too large together with a cell's identity. Never throws.
 */
export async function readCellCloudInit(text: string): Promise<CheckedCellCloudInit> {
  const { value, config, ...notes } = await checkCloudConfig(text);
  const lineOf = (key: string, index?: number): number | undefined =>
    notes.placeOf(index === undefined ? [key] : [key, index]).line;
  const problems: FileNote[] = notes.problems.map(toNote);
  const notices = notes.warnings.map(toNote);
  if (problems.length === 0) {
    if (config.hostname !== undefined)
      problems.push({
        line: lineOf("hostname"),
        message: '"hostname" would give all cells the same name',
        remedy: "Remove it: the cloud names each cell",
      });
    for (const [key, index] of filesOf(value)) {
      const place = textAt(value, key, index);
      const own = ownPlaces.find((each) => place === each || place.startsWith(`${each}/`));
      if (own === undefined) continue;
      const message = `"${key}[${index}].path" is "${place}": cells need "${own}" as it is`;
      problems.push({ line: lineOf(key, index), message, remedy: "Write to another place" });
    }
  }
  const cloudInit = problems.length === 0 ? knownKeys(value) : {};
  const plain = JSON.stringify(cloudInit);
  const bytes = gzipSync(plain, { level: 9 }).length;
  const most = cloudLimits.userDataBytes - identityBytes;
  if (bytes > most)
    problems.push({
      line: undefined,
      message: `it takes ${bytes} bytes of the cells' user data, compressed; there is room for ${most}`,
      remedy,
    });
  const plainBytes = Buffer.byteLength(plain);
  if (plainBytes > maxUserDataBytes - identityBytes)
    problems.push({
      line: undefined,
      message: `it is ${plainBytes} bytes long with all that its aliases stand for; cells take ${maxUserDataBytes}`,
      remedy,
    });
  return { cloudInit: problems.length === 0 ? cloudInit : undefined, problems, notices };
}

function toNote(note: { readonly line?: number | undefined; readonly message: string }): FileNote {
  return { line: note.line, message: note.message, remedy: undefined };
}

/** The keys as written, with the indices of all files. */
function filesOf(value: unknown): readonly (readonly [key: string, index: number])[] {
  return Object.entries(asRecord(value)).flatMap(([key, list]) =>
    /^(?:write|milpa)[-_]files$/.test(key) && Array.isArray(list)
      ? list.map((_, index) => [key, index] as const)
      : [],
  );
}

/** The normalized path of a file. */
function textAt(value: unknown, key: string, index: number): string {
  const list = asRecord(value)[key] as readonly unknown[]; // from filesOf
  const place = asRecord(list[index])["path"];
  return path.posix
    .normalize(typeof place === "string" ? place : "")
    .replace(/^\/+/, "/")
    .replace(/^\/(?=(?:bin|lib|sbin)\/)/, "/usr/") // Debian's links
    .replace(/^\/var\/run\//, "/run/");
}

/** Removes keys that cells would skip or that have no value, and converts the rest to JSON. */
function knownKeys(value: unknown): CellCloudInit {
  const known = Object.entries(asRecord(value)).flatMap(([key, each]) => {
    const name = key.replaceAll("-", "_");
    const isKnown = each !== null && cloudConfigKeys.some((one) => one === name);
    return isKnown ? [[name, toJson(each)] as const] : [];
  });
  return Object.fromEntries(known);
}

/** Encodes a file with binary content in base64. */
function toJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([key, each]) => [key, toJson(each)] as const);
  const { content, encoding } = asRecord(value);
  if (!(content instanceof Uint8Array)) return Object.fromEntries(fields);
  const isPacked = typeof encoding === "string" && /gz/i.test(encoding);
  return {
    ...Object.fromEntries(fields),
    content: Buffer.from(content).toString("base64"),
    encoding: isPacked ? "gz+b64" : "b64",
  };
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
