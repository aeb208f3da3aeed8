/** What an image may be at most. A stranger's image is refused where it passes one of these. */
export interface UnpackLimits {
  /** Bytes of all layers, inflated. @default 64 GiB */
  readonly unpackedBytes: number;
  /** Entries of all layers, and folders that are made because an entry is below them. @default 4,000,000 */
  readonly entries: number;
  /** Layers. @default 500 */
  readonly layers: number;
  /** Folders above an entry. @default 256 */
  readonly depth: number;
  /**
   * Bytes of memory for the names of one layer's entries, with their folders: up to 36 each. As much again for folders
   * that whiteouts empty. @default 128 MiB
   */
  readonly nameBytes: number;
}

/** The limits used where none are given. */
export const defaultUnpackLimits: UnpackLimits = {
  unpackedBytes: 64 * 1024 ** 3,
  entries: 4_000_000,
  layers: 500,
  depth: 256,
  nameBytes: 128 * 1024 ** 2,
};
