import { open, rm, type FileHandle } from "node:fs/promises";

/** Memory that is left for all waiting layers together, bytes. */
interface SpoolMemory {
  left: number;
}

/** Small pieces are joined up to this size, because each piece costs a turn of an inflater's thread. */
const joinedBytes = 256 * 1024;
/** Memory for a piece besides its bytes. A registry may send one byte at a time. */
const pieceOverhead = 512;

/**
 * Holds a layer that arrives before its turn. It may be read while it still arrives. It uses memory as long as there is enough,
 * then a file. For one writer and one reader.
 */
export class LayerSpool {
  readonly #path: string;
  readonly #memory: SpoolMemory;
  readonly #pieces: Uint8Array[] = [];
  /** Number of bytes in the file. They come after all pieces in memory. */
  #written = 0;
  #isComplete = false;
  #failure: { readonly error: unknown } | undefined;
  #wake: (() => void) | undefined;

  /**
   * @param path path for the file, if it is needed
   * @param memory shared by several spools
   */
  constructor(path: string, memory: SpoolMemory) {
    this.#path = path;
    this.#memory = memory;
  }

  /** Stores a whole stream. The reader gets its failures as well. */
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

  /** Everything stored so far, and what is still to come. */
  async *read(): AsyncGenerator<Uint8Array> {
    while (this.#pieces.length > 0 || (this.#written === 0 && !this.#isComplete)) {
      if (this.#pieces.length > 0) yield this.#takePieces();
      else await this.#progress();
    }
    if (this.#written > 0) yield* this.#readFile();
  }

  /** Removes the file. Call it after reading. */
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
