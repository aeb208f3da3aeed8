import path from "node:path";
import { verified } from "../digest.ts";
import { within, writeFailure } from "../errors.ts";
import type { Hashing } from "../hashing.ts";
import type { ImageSource } from "../image-source.ts";
import type { LayerPlan } from "./fetch-image.ts";
import { LayerSpool } from "./layer-spool.ts";

/** Created once, because an abort without a reason creates an error with a stack trace. */
const finished = new Error("All layers are unpacked");

/** Options of {@link LayerDownloads}. */
export interface LayerDownloadsOptions {
  /** Number of concurrent downloads, 1 or more. */
  readonly parallel: number;
  /** A folder for layers that wait for their turn. */
  readonly spoolFolder: string;
  /** Memory for all waiting layers together, bytes. Further data go to files. */
  readonly spoolMemoryBytes: number;
  readonly hashing: Hashing;
  readonly signal?: AbortSignal | undefined;
  /** Called with the length of each piece that arrives. */
  readonly onReceived: (length: number) => void;
}

/** A layer and the spool in which it waits. The first layer has no spool. */
interface Download {
  readonly index: number;
  readonly layer: LayerPlan;
  readonly spool: LayerSpool | undefined;
}

/**
 * Downloads the layers of an image, several at a time. The first layer goes directly to its reader. The next ones wait in a
 * spool until it is their turn. The first failure stops everything.
 */
export class LayerDownloads implements AsyncDisposable {
  readonly #source: ImageSource;
  readonly #options: LayerDownloadsOptions;
  readonly #downloads: readonly Download[];
  /**
   * Spools that no worker is filling yet. Workers take them in this order, so a layer whose download has not started comes
   * after one that failed.
   */
  readonly #unfilled: Iterator<Download> & Iterable<Download>;
  readonly #workers: Promise<void>[] = [];
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;

  /** Starts all downloads except the first. With one at a time, they start when the first is done. */
  constructor(source: ImageSource, layers: readonly LayerPlan[], options: LayerDownloadsOptions) {
    this.#source = source;
    this.#options = options;
    this.#signal = options.signal
      ? AbortSignal.any([this.#stop.signal, options.signal])
      : this.#stop.signal;
    const memory = { left: options.spoolMemoryBytes };
    this.#downloads = layers.map((layer, index) => {
      const file = path.join(options.spoolFolder, `${index}`);
      return { index, layer, spool: index === 0 ? undefined : new LayerSpool(file, memory) };
    });
    this.#unfilled = this.#downloads.slice(1).values();
    const workers = Math.min(options.parallel, layers.length) - 1;
    for (let count = 0; count < workers; count++) this.#startWorker();
  }

  /**
   * Passes a layer to its reader while it arrives. Call it for each layer, in order.
   *
   * @throws the first failure of any download or reader, with the number of its layer; the signal's reason
   */
  async take(
    index: number,
    read: (blob: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const download = this.#downloads[index];
    if (!download) throw new RangeError(`There is no layer ${index}`);
    const { layer, spool } = download;
    try {
      await read(spool?.read() ?? this.#stream(layer), this.#signal);
    } catch (error) {
      this.#fail(download, error);
    }
    this.#signal.throwIfAborted();
    if (index === 0 && this.#workers.length === 0) this.#startWorker();
    await spool?.remove();
  }

  /** Stops all downloads, and resolves when they have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(finished);
    await Promise.all(this.#workers);
  }

  #startWorker(): void {
    this.#workers.push(this.#fillSpools());
  }

  async #fillSpools(): Promise<void> {
    for (const download of this.#unfilled) {
      try {
        await download.spool?.fill(this.#stream(download.layer));
      } catch (error) {
        return this.#fail(download, error);
      }
    }
  }

  async *#stream({ blob }: LayerPlan): AsyncGenerator<Uint8Array> {
    this.#signal.throwIfAborted();
    const source = await this.#source.blob(blob, this.#signal);
    for await (const chunk of verified(source, blob, this.#options.hashing)) {
      this.#signal.throwIfAborted();
      this.#options.onReceived(chunk.length);
      yield chunk;
    }
  }

  /** Stops everything. Callers get the first failure. */
  #fail({ index }: Download, error: unknown): void {
    const place = `layer ${index + 1} of ${this.#downloads.length}`;
    this.#stop.abort(within(place, writeFailure(error)));
  }
}
