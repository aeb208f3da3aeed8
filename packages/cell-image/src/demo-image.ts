import { KipError, type Logger } from "@kip/base";

/** Options of {@link buildDemoImage}. */
export interface BuildDemoImageOptions {
  /** Where the image is kept; made when it is missing. */
  readonly cacheDir: string;
  /** Gets one sentence at the start of each step that takes more than a second. */
  readonly onProgress?: (message: string) => void;
  /** @default silent */
  readonly logger?: Logger;
  readonly signal?: AbortSignal;
}

/** A container image in an OCI image layout. */
export interface DemoImage {
  /** Absolute path of the layout directory (`oci-layout`, `index.json`, `blobs/sha256`). */
  readonly layoutDir: string;
  /** Digest of the manifest, `sha256:...`; the same inputs give the same digest. */
  readonly digest: string;
  /** Tag of the manifest in `index.json` (`org.opencontainers.image.ref.name`). */
  readonly tag: string;
}

/**
 * Gives a small container image made from Debian's busybox: prints a greeting, then serves HTTP on port 8080.
 *
 * @throws {KipError} `CELL_IMAGE_TOOLS_MISSING`, `CELL_IMAGE_BUILD_FAILED`
 */
export async function buildDemoImage(options: BuildDemoImageOptions): Promise<DemoImage> {
  throw new KipError(
    "CELL_IMAGE_BUILD_FAILED",
    `Cannot build demo image in "${options.cacheDir}": not built yet`,
  );
}
