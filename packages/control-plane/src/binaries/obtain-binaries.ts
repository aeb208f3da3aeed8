import type { Logger } from "@kip/base";
import { binariesIn, pinned, type Binaries } from "./pinned-version.ts";

/** Options of {@link obtainBinaries}. */
export interface ObtainOptions {
  readonly cacheDir: string;
  readonly userDir?: string;
  readonly onProgress?: (line: string) => void;
  readonly logger?: Logger;
  readonly signal?: AbortSignal;
  readonly allowDownload?: boolean;
  readonly go?: string;
}

/** Interim. */
export async function obtainBinaries(options: ObtainOptions): Promise<Binaries> {
  return binariesIn(options.userDir ?? `${options.cacheDir}/kubernetes/${pinned.kubernetes}`);
}
