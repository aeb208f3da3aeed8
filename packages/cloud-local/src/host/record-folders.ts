import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, isSystemError } from "@kip/base";

/** Options of {@link RecordFolders}. */
export interface RecordFoldersOptions<R> {
  /** Folder with one folder per record. */
  readonly folder: string;
  /** Folder with the lock files, whose names start with `name`. */
  readonly locks: string;
  /** The kind of record, in lower case: `volume` gives `volume.json`. */
  readonly name: string;
  readonly parse: (text: string, file: string) => R;
  /** Whether records must survive a power failure. They are always complete. */
  readonly isForGood: boolean;
}

/**
 * A folder with one folder per object, which contains the object's record. All processes share it.
 *
 * - An object's folder is created with its record in it by one rename, and removed by one rename.
 * - Records change only under {@link RecordFolders.lock}.
 */
export class RecordFolders<R extends { readonly id: string }> {
  readonly #options: RecordFoldersOptions<R>;

  constructor(options: RecordFoldersOptions<R>) {
    this.#options = options;
  }

  /** Creates the folders, and cleans up after killed processes. */
  async open(): Promise<void> {
    const { folder, locks } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await mkdir(locks, { recursive: true, mode: 0o700 });
    for (const name of await readdir(folder)) {
      const id = /^\.(?:new|removed)-(.+)$/.exec(name)?.[1];
      if (id !== undefined)
        await this.lock(id, () => rm(path.join(folder, name), { recursive: true, force: true }));
    }
  }

  folderOf(id: string): string {
    return path.join(this.#options.folder, id);
  }

  async read(id: string): Promise<R | undefined> {
    const file = this.#recordOf(id);
    try {
      return this.#options.parse(await readFile(file, "utf8"), file);
    } catch (error) {
      if (isSystemError(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  async readAll(): Promise<readonly R[]> {
    const names = await readdir(this.#options.folder);
    const records = await Promise.all(
      names.filter((name) => !name.startsWith(".")).map((name) => this.read(name)),
    );
    return records.filter((record) => record !== undefined);
  }

  /** IDs of existing records that cannot be read. */
  async unreadable(): Promise<readonly string[]> {
    const names = await readdir(this.#options.folder);
    const found = await Promise.all(
      names
        .filter((name) => !name.startsWith("."))
        .map((name) =>
          this.read(name).then(
            () => undefined,
            () => name,
          ),
        ),
    );
    return found.filter((name) => name !== undefined);
  }

  /** Creates the folder of a new object. `fill` adds more files before the folder becomes visible. */
  async add(record: R, fill?: (folder: string) => Promise<void>): Promise<void> {
    const draft = path.join(this.#options.folder, `.new-${record.id}`);
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o700 });
    await writeDurably(path.join(draft, `${this.#options.name}.json`), record);
    await fill?.(draft);
    await this.#sync(draft);
    await rename(draft, this.folderOf(record.id));
    await this.#sync(this.#options.folder);
  }

  /** Replaces the record of an existing object. */
  async update(record: R): Promise<void> {
    const file = this.#recordOf(record.id);
    await writeDurably(`${file}.new`, record);
    await rename(`${file}.new`, file);
    await this.#sync(path.dirname(file));
  }

  /** Removes the folder and its content. Does nothing if it is gone. */
  async remove(id: string): Promise<void> {
    const removed = path.join(this.#options.folder, `.removed-${id}`);
    await rm(removed, { recursive: true, force: true });
    try {
      await rename(this.folderOf(id), removed);
    } catch (error) {
      if (isSystemError(error, "ENOENT")) return;
      throw error;
    }
    await rm(removed, { recursive: true, force: true });
  }

  /** Runs `work` while no other process changes this object. */
  async lock<T>(id: string, work: () => Promise<T>): Promise<T> {
    // A fixed set of files, so that none is ever removed. Removing a lock file while others wait for it would give the lock to
    // two. Objects that share a file only wait for each other.
    const stripe = createHash("sha256").update(id).digest("hex").slice(0, 2);
    const file = path.join(this.#options.locks, `${this.#options.name}-${stripe}`);
    await using _lock = await acquireFileLock(file);
    return await work();
  }

  /** The names in a folder must also reach the disk. */
  async #sync(folder: string): Promise<void> {
    if (!this.#options.isForGood) return;
    await using handle = await open(folder, "r");
    await handle.sync();
  }

  #recordOf(id: string): string {
    return path.join(this.folderOf(id), `${this.#options.name}.json`);
  }
}

async function writeDurably(file: string, record: unknown): Promise<void> {
  const handle = await open(file, "w", 0o600);
  try {
    await handle.writeFile(JSON.stringify(record, undefined, 2));
    await handle.sync(); // otherwise a power failure could leave an empty file with the final name
  } finally {
    await handle.close();
  }
}
