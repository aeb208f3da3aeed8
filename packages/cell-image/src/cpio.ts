/** One file of an archive that the kernel unpacks as its initial root. */
export interface CpioEntry {
  /** Relative path. The folders above it need no entry of their own. */
  readonly path: string;
  /** Content of a file; absent: a folder. */
  readonly content?: Uint8Array | undefined;
  /** @default false */
  readonly isExecutable?: boolean | undefined;
}

const regularFile = 0o100000;
const directory = 0o040000;

/**
 * An archive in the "newc" form, the one form that Linux reads. Everything belongs to root and dates from 1970, so the
 * same entries give the same bytes. The kernel takes several archives in a row as one.
 *
 * @see https://docs.kernel.org/driver-api/early-userspace/buffer-format.html
 */
export function cpioArchive(entries: readonly CpioEntry[]): Buffer {
  const all = withFolders(entries);
  const parts: Buffer[] = [];
  for (const [index, entry] of all.entries()) {
    const type = entry.content === undefined ? directory : regularFile;
    const permissions = entry.content === undefined || entry.isExecutable === true ? 0o755 : 0o644;
    addRecord(parts, entry, { inode: index + 1, mode: type | permissions });
  }
  addRecord(parts, { path: "TRAILER!!!", content: Buffer.alloc(0) }, { inode: 0, mode: 0 });
  const archive = Buffer.concat(parts);
  // Another archive may follow; it must begin on a 512 byte border.
  return Buffer.concat([archive, Buffer.alloc(-archive.length & 511)]);
}

function withFolders(entries: readonly CpioEntry[]): readonly CpioEntry[] {
  const all = new Map<string, CpioEntry>();
  for (const entry of entries) {
    const steps = entry.path.split("/");
    for (let depth = 1; depth < steps.length; depth++) {
      const folder = steps.slice(0, depth).join("/");
      if (!all.has(folder)) all.set(folder, { path: folder });
    }
    all.set(entry.path, entry);
  }
  return [...all.values()];
}

function addRecord(
  parts: Buffer[],
  entry: CpioEntry,
  numbers: { readonly inode: number; readonly mode: number },
): void {
  const name = Buffer.from(`${entry.path}\0`);
  const content = entry.content ?? Buffer.alloc(0);
  // In the order of the format; the zeros are owner, group / time / devices / checksum.
  const { inode, mode } = numbers;
  const links = 1;
  const fields = [inode, mode, 0, 0, links, 0, content.length, 0, 0, 0, 0, name.length, 0];
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, "0")).join("")}`;
  parts.push(Buffer.from(header, "latin1"), name, padding(header.length + name.length));
  parts.push(Buffer.from(content), padding(content.length));
}

function padding(length: number): Buffer {
  return Buffer.alloc(-length & 3);
}
