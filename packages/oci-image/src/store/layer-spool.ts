import { open, rm, type FileHandle } from "node:fs/promises";

/** Bytes that layers may still keep in memory, all together. */
interface SpoolMemory {
  left: number;
}

/** What comes in small pieces is handed on in larger ones: each costs a turn of an inflater's thread. */
const joinedBytes = 256 * 1024;
/** What a piece in memory costs beside its bytes: a registry may send one byte at a time. */
const pieceOverhead = 512;

/**
 * Holds a layer that arrives before its turn to be unpacked, and is read while it still arrives: in
 * memory as long as there is room, and what follows in a file. For one writer and one reader.
 */
export class LayerSpool {
  readonly #path: string;
  readonly #memory: SpoolMemory;
  readonly #pieces: Uint8Array[] = [];
  /** Bytes in the file; they come after all pieces. */
  #written = 0;
  #isComplete = false;
  #failure: { readonly error: unknown } | undefined;
  #wake: (() => void) | undefined;

  /**
   * @param path where the file is made if there must be one
   * @param memory what several spools share
   */
  constructor(path: string, memory: SpoolMemory) {
    this.#path = path;
    this.#memory = memory;
  }

  /** Takes all of a stream in; what fails, fails for the reader as well. */
  async fill(source: AsyncIterable<Uint8Array>): Promise<void> {
    let file: FileHandle | undefined;
    try {
      for await (const chunk of source) {
        if (!file && costOf(chunk) <= this.#memory.left) {
          this.#memory.left -= costOf(chunk);
          this.#pieces.push(chunk);
        } else {
          file ??= await open(this.#path, "wx", 0o600);
          await writeAll(file, chunk);
          this.#written += chunk.length;
        }
        this.#wake?.();
      }
      this.#isComplete = true;
    } catch (error) {
      this.#failure = { error };
      throw error;
    } finally {
      this.#wake?.();
      await file?.close();
    }
  }

  /** What was taken in so far and what is still to come. */
  async *read(): AsyncGenerator<Uint8Array> {
    while (this.#pieces.length > 0 || (this.#written === 0 && !this.#isComplete)) {
      if (this.#pieces.length > 0) yield this.#takePieces();
      else await this.#progress();
    }
    if (this.#written > 0) yield* this.#readFile();
  }

  /** Gives the disk space back; to be called when all is read. */
  async remove(): Promise<void> {
    if (this.#written > 0) await rm(this.#path, { force: true });
  }

  #takePieces(): Buffer {
    let count = 0;
    let length = 0;
    for (const piece of this.#pieces) {
      if (count > 0 && length + piece.length > joinedBytes) break;
      length += piece.length;
      this.#memory.left += costOf(piece);
      count++;
    }
    return Buffer.concat(this.#pieces.splice(0, count));
  }

  async *#readFile(): AsyncGenerator<Uint8Array> {
    await using file = await open(this.#path, "r");
    let at = 0;
    while (at < this.#written || !this.#isComplete) {
      if (at === this.#written) {
        await this.#progress();
        continue;
      }
      const buffer = Buffer.allocUnsafe(Math.min(128 * 1024, this.#written - at));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  async #progress(): Promise<void> {
    this.#throwFailure();
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
    this.#throwFailure();
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure.error;
  }
}

function costOf(piece: Uint8Array): number {
  return piece.length + pieceOverhead;
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  let at = 0;
  while (at < chunk.length) at += (await file.write(chunk, at)).bytesWritten;
}
