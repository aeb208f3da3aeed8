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

/** Gets the output of a {@link TarParser}, in order and synchronously. */
export interface TarSink {
  entry(entry: TarEntry): void;
  /** A piece of the current file's content. Only valid during the call. */
  content(piece: Buffer): void;
  /** This many bytes of the current file are a hole. */
  hole(length: number): void;
  /** The current file is complete. Called only for files, including empty ones. */
  contentEnd(): void;
}

const block = 512;
/** Largest accepted extended header, bytes. */
const maxExtensionBytes = 1024 * 1024;

type State =
  | { readonly at: "header" }
  | { readonly at: "extension"; readonly type: string; readonly pieces: Buffer[]; left: number }
  | { readonly at: "map"; readonly pieces: Buffer[]; left: number }
  | { readonly at: "content"; left: number }
  | { readonly at: "padding"; left: number }
  | { readonly at: "end" };

/**
 * Parses tar archives from pieces of any size, with constant memory. Supports v7, ustar, GNU long names and numbers, PAX and
 * sparse files. Like all other readers, ignores everything after the end mark.
 */
export class TarParser {
  readonly #sink: TarSink;
  #state: State = { at: "header" };
  /** The part of a header block that arrived with an earlier piece. */
  readonly #partial = Buffer.alloc(block);
  #partialLength = 0;
  /** Values from extended headers for the next entry. */
  #extensions: Extensions = {};
  #hasZeroBlock = false;
  /** Number of bytes between the current content and the next header. */
  #padding = 0;
  /** The sparse file whose map is being parsed. */
  #mapped:
    | {
        readonly found: StoredEntry;
        readonly segments: SparseSegment[];
        /** A map in the content, whose bytes count as content. */
        readonly blocks: SparseBlocks | undefined;
        length: number;
      }
    | undefined;
  /** Offsets for the current content, if the file is sparse. */
  #map: SparseMap | undefined;

  constructor(sink: TarSink) {
    this.#sink = sink;
  }

  /**
   * Processes the next piece.
   *
   * @param shouldPause called between entries. If it returns true, the caller passes the rest of the piece again later
   * @returns the number of processed bytes, which is all of them without a pause
   * @throws `IMAGE_INVALID`, and errors of the sink
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

  /** Call this at the end of the archive. @throws `IMAGE_INVALID` if the archive ends within an entry */
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
    // A single block of zeros does not end an archive. Readers disagree about anything after it, so nothing is allowed there.
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
    // "g" has defaults for all entries. It is ignored, as in Docker and containerd.
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

/** Number of bytes between the end of the content and the next header. */
function paddingOf(size: number): number {
  return (block - (size % block)) % block;
}

function untilZero(body: Buffer): string {
  const zero = body.indexOf(0);
  return body.toString("latin1", 0, zero === -1 ? body.length : zero);
}
