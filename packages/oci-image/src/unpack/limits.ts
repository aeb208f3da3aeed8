/** What an image may be at most. A stranger's image is refused where it passes one of these. */
export interface UnpackLimits {
  /** Bytes of all layers, inflated. @default 64 GiB */
  readonly unpackedBytes: number;
  /** Entries of all layers. @default 4,000,000 */
  readonly entries: number;
  /** Layers. @default 500 */
  readonly layers: number;
  /** Folders above an entry. @default 256 */
  readonly depth: number;
}

/** The limits used where none are given. */
export const defaultUnpackLimits: UnpackLimits = {
  unpackedBytes: 64 * 1024 ** 3,
  entries: 4_000_000,
  layers: 500,
  depth: 256,
};
