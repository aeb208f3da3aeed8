import type { Descriptor } from "./manifest.ts";

/** A manifest whose digest was verified. */
export interface FetchedManifest {
  readonly bytes: Uint8Array;
  readonly digest: string;
  /** The media type from the source. The type in the document also counts. */
  readonly mediaType?: string | undefined;
}

/** A source of an image: a registry or a folder. */
export interface ImageSource {
  /** The manifest or index that the reference points at. */
  root(signal?: AbortSignal): Promise<FetchedManifest>;
  /** A manifest that an index points at. */
  manifest(descriptor: Descriptor, signal?: AbortSignal): Promise<FetchedManifest>;
  /** The unverified bytes of a blob. Aborting `signal` ends the stream with its reason. */
  blob(descriptor: Descriptor, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

/** Largest manifest, index or configuration, bytes. Registries refuse larger ones too. */
export const maxDocumentBytes = 4 * 1024 * 1024;
