import { openHashing } from "../hash-thread.ts";
import type { ImageSource } from "../image-source.ts";
import { applyLayer } from "../unpack/apply-layer.ts";
import type { UnpackLimits } from "../unpack/limits.ts";
import { TreeWriter } from "../unpack/tree-writer.ts";
import type { LayerPlan } from "./fetch-image.ts";
import type { PullProgress } from "./image-store.ts";
import { LayerDownloads } from "./layer-downloads.ts";

/** Default number of concurrent downloads. */
const defaultDownloads = 4;
/**
 * Settings for images whose blobs are below 32 MiB: layers wait in memory instead of files, and pieces are larger. With larger
 * images this would gain nothing and cost 15 MiB.
 */
const smallImage = {
  blobBytes: 32 * 1024 * 1024,
  spoolMemoryBytes: 4 * 1024 * 1024,
  pieceBytes: 256 * 1024,
};

/** Options of {@link fetchLayers}. */
export interface FetchLayersOptions {
  /** An empty folder for the tree. */
  readonly tree: string;
  /** A folder for layers that wait for their turn. The caller removes it. */
  readonly spoolFolder: string;
  readonly limits: UnpackLimits;
  readonly makesDevices: boolean;
  /** Number of concurrent downloads, 1 or more. @default 4 */
  readonly parallelDownloads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: PullProgress) => void) | undefined;
  /** Called when the last byte has arrived. */
  readonly onDownloaded?: (() => void) | undefined;
}

/**
 * Downloads several layers at a time ({@link LayerDownloads}) and unpacks them in order into one tree. The first failure stops
 * everything. No work continues after the call has ended.
 *
 * @returns what was left out, one sentence each
 */
export async function fetchLayers(
  source: ImageSource,
  layers: readonly LayerPlan[],
  options: FetchLayersOptions,
): Promise<readonly string[]> {
  const { limits, parallelDownloads = defaultDownloads, spoolFolder } = options;
  const progress = new Progress(layers, options);
  const isSmall = progress.totalBytes < smallImage.blobBytes;
  await using hashing = openHashing(progress.totalBytes);
  using tree = new TreeWriter(options.tree, limits, options);
  await using downloads = new LayerDownloads(source, layers, {
    parallel: parallelDownloads,
    spoolFolder,
    spoolMemoryBytes: isSmall ? smallImage.spoolMemoryBytes : 0,
    hashing,
    signal: options.signal,
    onReceived: (length) => progress.received(length),
  });
  const shared = {
    limits,
    budget: { left: limits.unpackedBytes },
    hashing,
    pieceBytes: isSmall ? smallImage.pieceBytes : undefined,
  };
  for (const [index, { diffId }] of layers.entries()) {
    await downloads.take(index, async (blob, signal) => {
      await applyLayer(blob, tree, { ...shared, diffId, signal });
    });
    progress.layerDone();
  }
  tree.finish();
  return tree.notes;
}

/** Counts bytes and layers and reports the progress. */
class Progress {
  readonly totalBytes: number;
  readonly #layerCount: number;
  readonly #options: Pick<FetchLayersOptions, "onDownloaded" | "onProgress">;
  #downloadedBytes = 0;
  #layersDone = 0;

  constructor(layers: readonly LayerPlan[], options: FetchLayersOptions) {
    this.#layerCount = layers.length;
    this.#options = options;
    this.totalBytes = layers.reduce((sum, { blob }) => sum + blob.size, 0);
  }

  received(length: number): void {
    this.#downloadedBytes += length;
    if (this.#downloadedBytes === this.totalBytes) this.#options.onDownloaded?.();
    this.#report();
  }

  layerDone(): void {
    this.#layersDone++;
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({
      downloadedBytes: this.#downloadedBytes,
      totalBytes: this.totalBytes,
      layersDone: this.#layersDone,
      layerCount: this.#layerCount,
    });
  }
}
