import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, isSystemError } from "@kip/base";

/** What a {@link RecordFolders} keeps, and where. */
export interface RecordFoldersOptions<R> {
  /** Holds one folder per record. */
  readonly folder: string;
  /** Holds the lock files; names in it begin with `name`. */
  readonly locks: string;
  /** What the records are of, in lower case: `volume` gives `volume.json`. */
  readonly name: string;
  readonly parse: (text: string, file: string) => R;
  /** Whether what was added or changed is to be there after a power cut, and not only whole. */
  readonly isForGood: boolean;
}

/**
 * A folder with one folder per thing and its record in it, shared by all processes that use it.
 *
 * - A thing's folder appears with its record in it, by one rename, and disappears by one rename.
 * - Records change only under {@link RecordFolders.lock}.
 */
export class RecordFolders<R extends { readonly id: string }> {
  readonly #options: RecordFoldersOptions<R>;

  constructor(options: RecordFoldersOptions<R>) {
    this.#options = options;
  }

  /** Makes the folders, and removes what a killed process had not finished making or removing. */
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

  /** IDs of those whose record is there and cannot be read. */
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

  /** Makes the folder of something new; `fill` puts more into it before it can be seen. */
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

  /** Replaces the record of something that is there. */
  async update(record: R): Promise<void> {
    const file = this.#recordOf(record.id);
    await writeDurably(`${file}.new`, record);
    await rename(`${file}.new`, file);
    await this.#sync(path.dirname(file));
  }

  /** Removes the folder and all that is in it; nothing happens if it is gone. */
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

  /** Runs alone among everything that changes this thing, in all processes. */
  async lock<T>(id: string, work: () => Promise<T>): Promise<T> {
    // A fixed set of files, so that none is ever removed: removing a lock file under a waiter would
    // give the lock to two. Things that share a file only wait for each other.
    const stripe = createHash("sha256").update(id).digest("hex").slice(0, 2);
    const file = path.join(this.#options.locks, `${this.#options.name}-${stripe}`);
    await using _lock = await acquireFileLock(file);
    return await work();
  }

  /** Names in a folder are data as well. */
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
    await handle.sync(); // else a power cut can leave an empty file under the final name
  } finally {
    await handle.close();
  }
}
