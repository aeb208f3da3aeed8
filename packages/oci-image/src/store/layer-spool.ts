import { open, rm, type FileHandle } from "node:fs/promises";

/**
 * A file that is read while it is still written: it holds a layer that arrives before its turn to
 * be unpacked. For one writer and one reader.
 */
export class LayerSpool {
  readonly #path: string;
  #written = 0;
  #isComplete = false;
  #failure: { readonly error: unknown } | undefined;
  #wake: (() => void) | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Takes all of a stream in; what fails, fails for the reader as well. */
  async fill(source: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      await using file = await open(this.#path, "wx", 0o600);
      for await (const chunk of source) {
        await writeAll(file, chunk);
        this.#written += chunk.length;
        this.#wake?.();
      }
      this.#isComplete = true;
    } catch (error) {
      this.#failure = { error };
      throw error;
    } finally {
      this.#wake?.();
    }
  }

  /** What was taken in so far and what is still to come. */
  async *read(): AsyncGenerator<Uint8Array> {
    while (this.#written === 0 && !this.#isComplete) await this.#progress();
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

  /** Gives the disk space back; to be called when all is read. */
  async remove(): Promise<void> {
    await rm(this.#path, { force: true });
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

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  let at = 0;
  while (at < chunk.length) at += (await file.write(chunk, at)).bytesWritten;
}
