/** A file in an archive that the kernel unpacks as its initial root. */
export interface CpioEntry {
  /** Relative path. Parent folders need no entry. */
  readonly path: string;
  /** Content of a file. Absent for a folder. */
  readonly content?: Uint8Array | undefined;
  /** @default false */
  readonly isExecutable?: boolean | undefined;
}

const regularFile = 0o100000;
const directory = 0o040000;

/**
 * An archive in "newc" form, the only form that Linux reads. Everything belongs to root and has the time 0, so the same entries
 * give the same bytes. The kernel reads several consecutive archives as one.
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
  // Another archive may follow. It must start at a multiple of 512 bytes.
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
  // In the order of the format. The zeros are: owner and group; time; devices and checksum.
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
