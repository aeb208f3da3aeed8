import { invalidImage } from "../errors.ts";
import { parsePaxRecords } from "./pax-records.ts";
import {
  maxSegments,
  readGnuSegments,
  SparseBlocks,
  SparseMap,
  type SparseSegment,
} from "./sparse-map.ts";
import { resolveEntry, type Extensions, type StoredEntry, type TarEntry } from "./tar-entry.ts";
import { parseHeader, type RawHeader } from "./tar-header.ts";

/** Receives what a {@link TarParser} reads, in order and at once. */
export interface TarSink {
  entry(entry: TarEntry): void;
  /** A piece of the last file's content; only valid during the call. */
  content(piece: Buffer): void;
  /** So many bytes of the last file are a hole. */
  hole(length: number): void;
  /** The last file is complete; called for files only, empty ones too. */
  contentEnd(): void;
}

const block = 512;
/** Largest extended header that is believed, bytes. */
const maxExtensionBytes = 1024 * 1024;

type State =
  | { readonly at: "header" }
  | { readonly at: "extension"; readonly type: string; readonly pieces: Buffer[]; left: number }
  | { readonly at: "map"; readonly pieces: Buffer[]; left: number }
  | { readonly at: "content"; left: number }
  | { readonly at: "padding"; left: number }
  | { readonly at: "end" };

/**
 * Reads tar archives piece by piece, whatever the pieces' sizes, in constant memory: v7, ustar, GNU
 * long names and numbers, PAX, sparse files. What follows the end mark is passed over, as every
 * other reader does.
 */
export class TarParser {
  readonly #sink: TarSink;
  #state: State = { at: "header" };
  /** The part of a header block that came with an earlier piece. */
  readonly #partial = Buffer.alloc(block);
  #partialLength = 0;
  /** What extended headers said about the entry that follows them. */
  #extensions: Extensions = {};
  #hasZeroBlock = false;
  /** Bytes between the content that is being read and the next header. */
  #padding = 0;
  /** The sparse file whose map is being read. */
  #mapped:
    | {
        readonly found: StoredEntry;
        readonly segments: SparseSegment[];
        /** Of a map that is in the content, whose bytes are counted. */
        readonly blocks: SparseBlocks | undefined;
        length: number;
      }
    | undefined;
  /** Where the content that is being read belongs, if the file is sparse. */
  #map: SparseMap | undefined;

  constructor(sink: TarSink) {
    this.#sink = sink;
  }

  /**
   * Takes the next piece.
   *
   * @param shouldPause asked between the entries of the piece; what follows is then to be given again
   * @returns bytes that were taken: all, unless it was to pause
   * @throws `IMAGE_INVALID`, and what the sink throws
   */
  write(chunk: Buffer, shouldPause: () => boolean = () => false): number {
    let at = 0;
    while (at < chunk.length && !shouldPause()) {
      const state = this.#state;
      if (state.at === "end") return chunk.length;
      if (state.at === "header") {
        at = this.#takeHeader(chunk, at);
        continue;
      }
      const length = Math.min(state.left, chunk.length - at);
      const piece = chunk.subarray(at, at + length);
      at += length;
      state.left -= length;
      if (state.at === "content") this.#content(piece);
      if ("pieces" in state) state.pieces.push(Buffer.from(piece));
      if (state.left === 0) this.#leave(state);
    }
    return at;
  }

  /** To be called when there is no more. @throws `IMAGE_INVALID` if the archive stops in an entry */
  end(): void {
    const isClean =
      this.#state.at === "end" || (this.#state.at === "header" && !this.#hasPending());
    if (!isClean) throw invalidImage("a layer stops in the middle of an entry");
  }

  #hasPending(): boolean {
    return this.#partialLength > 0 || Object.keys(this.#extensions).length > 0;
  }

  #takeHeader(chunk: Buffer, at: number): number {
    if (this.#partialLength === 0 && chunk.length - at >= block) {
      this.#header(chunk, at);
      return at + block;
    }
    const length = Math.min(block - this.#partialLength, chunk.length - at);
    chunk.copy(this.#partial, this.#partialLength, at, at + length);
    this.#partialLength += length;
    if (this.#partialLength === block) {
      this.#partialLength = 0;
      this.#header(this.#partial, 0);
    }
    return at + length;
  }

  #header(chunk: Buffer, at: number): void {
    const header = parseHeader(chunk, at);
    if (header === undefined) {
      if (this.#hasPending()) throw invalidImage("a layer ends where an entry must follow");
      if (this.#hasZeroBlock) this.#state = { at: "end" };
      this.#hasZeroBlock = true;
      return;
    }
    // A lone block of zeros does not end an archive; readers disagree on what follows one, so nothing may.
    if (this.#hasZeroBlock) throw invalidImage("a layer goes on after a block of zeros");
    if ("xgLK".includes(header.type)) this.#beginExtension(header);
    else this.#beginEntry(header);
  }

  #beginExtension(header: RawHeader): void {
    if (header.size > maxExtensionBytes) throw invalidImage("a layer has an oversized tar header");
    this.#state = { at: "extension", type: header.type, pieces: [], left: header.size };
    if (header.size === 0) this.#leave(this.#state);
  }

  #endExtension(type: string, body: Buffer): void {
    if (type === "x") this.#extensions.pax = parsePaxRecords(body);
    if (type === "L") this.#extensions.longName = untilZero(body);
    if (type === "K") this.#extensions.longLink = untilZero(body);
    // "g", defaults for all entries, is passed over: Docker and containerd do not apply it either.
  }

  #beginEntry(header: RawHeader): void {
    const found = resolveEntry(header, this.#extensions);
    this.#extensions = {};
    const { segments } = found;
    if (segments === undefined) return this.#open(found.entry, found.stored);
    if (segments !== "inContent" && header.sparse?.isContinued !== true) {
      return this.#openSparse(found, segments, found.stored);
    }
    const isInContent = segments === "inContent";
    this.#mapped = {
      found,
      segments: isInContent ? [] : [...segments],
      blocks: isInContent ? new SparseBlocks() : undefined,
      length: 0,
    };
    this.#readMapBlock();
  }

  #open(entry: TarEntry, stored: number): void {
    this.#sink.entry(entry);
    if (entry.kind !== "file") return;
    this.#padding = paddingOf(stored);
    this.#state = { at: "content", left: stored };
    if (stored === 0) this.#leave(this.#state);
  }

  #openSparse({ entry }: StoredEntry, segments: readonly SparseSegment[], stored: number): void {
    this.#mapped = undefined;
    this.#map = new SparseMap(segments, entry.size, stored);
    this.#open(entry, stored);
  }

  #readMapBlock(): void {
    this.#state = { at: "map", pieces: [], left: block };
  }

  #mapBlock(bytes: Buffer): void {
    const mapped = this.#mapped;
    if (!mapped) return;
    const { found, blocks } = mapped;
    if (blocks) mapped.length += bytes.length;
    else mapped.segments.push(...readGnuSegments(bytes, 0, 21));
    const isOversized = mapped.length > found.stored || mapped.length > maxExtensionBytes;
    if (isOversized || mapped.segments.length > maxSegments) {
      throw invalidImage("a layer has a sparse file with an oversized map");
    }
    const whole = bytes[504] === 0 ? mapped.segments : undefined;
    const segments = blocks ? blocks.take(bytes.toString("latin1")) : whole;
    if (segments) this.#openSparse(found, segments, found.stored - mapped.length);
    else this.#readMapBlock();
  }

  #content(piece: Buffer): void {
    if (this.#map) this.#map.feed(piece, this.#sink);
    else this.#sink.content(piece);
  }

  #contentEnd(): void {
    this.#map?.end(this.#sink);
    this.#map = undefined;
    this.#sink.contentEnd();
  }

  #leave(state: State): void {
    if (state.at === "map") return this.#mapBlock(Buffer.concat(state.pieces));
    if (state.at === "content") this.#contentEnd();
    if (state.at === "extension") {
      const body = Buffer.concat(state.pieces);
      this.#padding = paddingOf(body.length);
      this.#endExtension(state.type, body);
    }
    const left = state.at === "padding" ? 0 : this.#padding;
    this.#state = left > 0 ? { at: "padding", left } : { at: "header" };
  }
}

/** Bytes from the end of content to the next header. */
function paddingOf(size: number): number {
  return (block - (size % block)) % block;
}

function untilZero(body: Buffer): string {
  const zero = body.indexOf(0);
  return body.toString("latin1", 0, zero === -1 ? body.length : zero);
}
