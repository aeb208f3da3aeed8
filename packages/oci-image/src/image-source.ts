import type { Descriptor } from "./manifest.ts";

/** A manifest's bytes, whose digest is known to be right. */
export interface FetchedManifest {
  readonly bytes: Uint8Array;
  readonly digest: string;
  /** What the source said it is; the document's own word counts as well. */
  readonly mediaType?: string | undefined;
}

/** Where an image comes from: a registry, or a folder. */
export interface ImageSource {
  /** What the reference points at: a manifest or an index. */
  root(signal?: AbortSignal): Promise<FetchedManifest>;
  /** A manifest that an index points at. */
  manifest(descriptor: Descriptor, signal?: AbortSignal): Promise<FetchedManifest>;
  /** The bytes of a blob, not yet verified. `signal` ends the stream with its reason. */
  blob(descriptor: Descriptor, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

/** Largest manifest, index or configuration that is read, bytes; registries refuse larger ones too. */
export const maxDocumentBytes = 4 * 1024 * 1024;
