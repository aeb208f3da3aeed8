import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { decode } from "@kip/base";

/** State of a file when it was known to be valid. Times are nanoseconds since the epoch. */
const sealDocument = decode.object({
  bytes: decode.integer,
  modified: decode.string,
  /** This cannot be set back, so it shows any change of the file. */
  changed: decode.string,
  sha256: decode.string,
});

/** @see sealDocument */
export type Seal = decode.Decoded<typeof sealDocument>;

const recordDocument = decode.object({
  key: decode.string,
  /** The inputs of the key. */
  facts: decode.map(decode.string),
  memory: sealDocument,
  disk: sealDocument,
  state: sealDocument,
  /** The host's boot ID when the contents were created or last compared with their hashes. */
  verifiedBootId: decode.string,
  /** RFC 3339. */
  created: decode.string,
});

/** `template.json`. */
export type TemplateRecord = decode.Decoded<typeof recordDocument>;

/** Files in a template's folder. */
export interface TemplateFiles {
  readonly folder: string;
  readonly record: string;
  readonly memory: string;
  readonly disk: string;
  /** The device state in QEMU's format. */
  readonly state: string;
}

/** Parses a `template.json`. */
export function parseTemplateRecord(text: string, file: string): TemplateRecord {
  return recordDocument(JSON.parse(text), file);
}

/** Records the present state of a file. */
export async function sealOf(file: string, sha256: string): Promise<Seal> {
  const found = await stat(file, { bigint: true });
  return {
    bytes: Number(found.size),
    modified: String(found.mtimeNs),
    changed: String(found.ctimeNs),
    sha256,
  };
}

/**
 * Why a template must not be used, in words that follow "its". Undefined if it is valid. The device state is small and is read.
 * The content of the other files can only change without a trace on a disk that is not mounted:
 * {@link TemplateRecord.verifiedBootId}.
 */
export async function findDamage(
  record: TemplateRecord,
  files: TemplateFiles,
): Promise<string | undefined> {
  const [memory, disk, state] = await Promise.all([
    compare("memory", record.memory, files.memory),
    compare("disk", record.disk, files.disk),
    compareContent("device state", record.state, files.state),
  ]);
  return memory ?? disk ?? state;
}

async function compare(what: string, seal: Seal, file: string): Promise<string | undefined> {
  try {
    const now = await sealOf(file, seal.sha256);
    if (now.bytes !== seal.bytes) return `${what} has another size`;
    const isSame = now.modified === seal.modified && now.changed === seal.changed;
    return isSame ? undefined : `${what} was changed`;
  } catch {
    return `${what} cannot be read`;
  }
}

async function compareContent(what: string, seal: Seal, file: string): Promise<string | undefined> {
  try {
    const content = await readFile(file);
    const sha256 = createHash("sha256").update(content).digest("hex");
    return sha256 === seal.sha256 ? undefined : `${what} has another content`;
  } catch {
    return `${what} cannot be read`;
  }
}
