import { invalidImage } from "../errors.ts";

/** A run of stored bytes and its offset in the file. */
export interface SparseSegment {
  readonly offset: number;
  readonly length: number;
}

/** Gets a sparse file's bytes and holes, in order. */
export interface SparseSink {
  content(piece: Buffer): void;
  hole(length: number): void;
}

/** Largest accepted number of segments. GNU tar writes one per run of data. */
export const maxSegments = 65_536;
/** Most digits of a decimal number. */
const maxDigits = 16;

/**
 * Assigns the stored bytes of a sparse file to their offsets. Formats: GNU tar manual, "Storing Sparse Files" (old GNU, PAX
 * 0.0, 0.1 and 1.0).
 *
 * @throws `IMAGE_INVALID` if segments overlap, exceed the file, or do not match the stored size
 */
export class SparseMap {
  readonly #segments: readonly SparseSegment[];
  readonly #size: number;
  #index = 0;
  /** Number of bytes of the current segment so far. */
  #taken = 0;
  /** Offset up to which the file was written. */
  #position = 0;

  constructor(segments: readonly SparseSegment[], size: number, stored: number) {
    let end = 0;
    let sum = 0;
    for (const { offset, length } of segments) {
      if (!isCount(offset) || !isCount(length) || offset < end) throw broken();
      end = offset + length;
      sum += length;
    }
    if (segments.length > maxSegments || end > size || sum !== stored) throw broken();
    this.#segments = segments.filter(({ length }) => length > 0);
    this.#size = size;
  }

  /** Processes the next stored bytes. */
  feed(piece: Buffer, sink: SparseSink): void {
    let at = 0;
    while (at < piece.length) {
      const segment = this.#segments[this.#index];
      if (!segment) throw broken();
      if (this.#taken === 0) this.#skipTo(segment.offset, sink);
      const length = Math.min(piece.length - at, segment.length - this.#taken);
      sink.content(piece.subarray(at, at + length));
      at += length;
      this.#taken += length;
      this.#position += length;
      if (this.#taken === segment.length) {
        this.#index++;
        this.#taken = 0;
      }
    }
  }

  /** Processes the hole at the end. */
  end(sink: SparseSink): void {
    this.#skipTo(this.#size, sink);
  }

  #skipTo(offset: number, sink: SparseSink): void {
    if (offset > this.#position) sink.hole(offset - this.#position);
    this.#position = offset;
  }
}

/** Parses PAX 0.1's list `offset,length,…`. A list of PAX 0.0 was converted to the same form. */
export function parseSparseList(text: string): readonly SparseSegment[] {
  const numbers = text === "" ? [] : text.split(",").map(decimal);
  if (numbers.length % 2 !== 0) throw broken();
  return pairs(numbers);
}

/**
 * The map that PAX 1.0 stores before the content: blocks of decimal lines, starting with the count. Each block is parsed once.
 */
export class SparseBlocks {
  readonly #numbers: number[] = [];
  #rest = "";

  /** Processes the next block. Undefined if more blocks are needed. Bytes after the last number are padding. */
  take(block: string): readonly SparseSegment[] | undefined {
    const lines = (this.#rest + block).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (this.#isWhole()) break;
      this.#numbers.push(decimal(line));
    }
    if (this.#isWhole()) return pairs(this.#numbers.slice(1));
    if (this.#rest.length > maxDigits) throw broken();
    return undefined;
  }

  #isWhole(): boolean {
    const [count] = this.#numbers;
    if (count !== undefined && count > maxSegments) throw broken();
    return count !== undefined && this.#numbers.length === 1 + 2 * count;
  }
}

/** Parses segments of an old GNU header or of a continuation block. */
export function readGnuSegments(block: Buffer, start: number, count: number): SparseSegment[] {
  const segments: SparseSegment[] = [];
  for (let index = 0; index < count; index++) {
    const at = start + 24 * index;
    if (block[at] === 0) break;
    segments.push({ offset: gnuNumber(block, at), length: gnuNumber(block, at + 12) });
  }
  return segments;
}

/** Parses a number of 12 bytes: octal digits, or base 256 if the first bit is set. */
export function gnuNumber(block: Buffer, start: number): number {
  if ((block[start] ?? 0) >= 0x80) {
    const number = Number(block.readBigUInt64BE(start + 4));
    if (block.readUInt32BE(start) !== 0x8000_0000 || !isCount(number)) throw broken();
    return number;
  }
  const text = block
    .toString("latin1", start, start + 12)
    .replace(/[\0 ]+$/, "")
    .trim();
  if (!/^[0-7]{1,12}$/.test(text)) throw broken();
  return Number.parseInt(text, 8);
}

function pairs(numbers: readonly number[]): readonly SparseSegment[] {
  const segments: SparseSegment[] = [];
  for (let index = 0; index < numbers.length; index += 2) {
    segments.push({ offset: numbers[index] ?? 0, length: numbers[index + 1] ?? 0 });
  }
  return segments;
}

function decimal(text: string): number {
  if (!/^\d{1,16}$/.test(text) || !isCount(Number(text))) throw broken();
  return Number(text);
}

function isCount(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0;
}

function broken(): Error {
  return invalidImage("a layer has a sparse file with a broken map");
}
