/** Limits for an image. Images that exceed one of them are refused. */
export interface UnpackLimits {
  /** Bytes of all layers after inflating. @default 64 GiB */
  readonly unpackedBytes: number;
  /** Entries of all layers, plus folders that are created because an entry is below them. @default 4,000,000 */
  readonly entries: number;
  /** Number of layers. @default 500 */
  readonly layers: number;
  /** Number of folders above an entry. @default 256 */
  readonly depth: number;
  /**
   * Memory for the names of one layer's entries and their folders, bytes: up to 36 for each name. The same amount again for
   * folders that whiteouts empty. @default 128 MiB
   */
  readonly nameBytes: number;
}

/** The default limits. */
export const defaultUnpackLimits: UnpackLimits = {
  unpackedBytes: 64 * 1024 ** 3,
  entries: 4_000_000,
  layers: 500,
  depth: 256,
  nameBytes: 128 * 1024 ** 2,
};
