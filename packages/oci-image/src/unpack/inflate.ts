import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { invalidImage } from "../errors.ts";
import { ZstdFrames } from "./zstd-frames.ts";

/** Larger pieces are hardly faster, and use more memory until it is collected. */
const defaultPieceBytes = 128 * 1024;

/**
 * Inflates a layer according to its first bytes: gzip, zstd or plain. Ignores media types, as Docker does, because some
 * builders write the wrong one. Always reads the source to its end, so that the source's checks run. A chunk is only valid
 * until the next one is requested.
 */
export async function* inflate(
  source: AsyncIterable<Uint8Array>,
  chunkSize: number = defaultPieceBytes,
): AsyncGenerator<Buffer> {
  const chunks = source[Symbol.asyncIterator]();
  const start = await readStart(chunks);
  const whole = rejoin(start, chunks);
  const format = formatOf(start);
  if (format === "plain") {
    yield* whole;
    return;
  }
  const inflater =
    format === "gzip" ? createGunzip({ chunkSize }) : createZstdDecompress({ chunkSize });
  const input = format === "gzip" ? whole : frameByFrame(whole);
  const flow = pipeline(Readable.from(input, { objectMode: false }), inflater);
  // The loop below gets its failure first. It is awaited afterwards, for failures that the loop cannot see.
  flow.catch(() => {});
  try {
    for await (const chunk of inflater) {
      yield chunk as Buffer; // zlib streams give buffers
      release(chunk as Buffer, chunkSize);
    }
    await flow;
  } catch (error) {
    if (isZlibError(error)) throw invalidImage("it is damaged and cannot be inflated", error);
    throw error;
  }
}

function formatOf(start: Buffer): "gzip" | "zstd" | "plain" {
  if (start.length === 0) return "plain";
  if (start.readUInt16BE(0) === 0x1f8b) return "gzip";
  // The magic number of a frame, or of a skippable frame, with which zstd:chunked may start.
  const magic = start.readUInt32LE(0);
  const isZstd = magic === 0xfd2fb528 || (magic & 0xfffffff0) >>> 0 === 0x184d2a50;
  return isZstd ? "zstd" : "plain";
}

/**
 * Releases the memory of a chunk that is no longer needed. The garbage collector would do this some 40 MiB later, because it
 * counts small objects and not the memory that they refer to. Only done if the chunk is at the end of one of zlib's buffers,
 * where zlib has no more space to write.
 */
function release({ buffer, byteOffset, byteLength }: Buffer, chunkSize: number): void {
  const isLast = byteOffset + byteLength === chunkSize && buffer.byteLength === chunkSize;
  if (isLast && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

async function* frameByFrame(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const frames = new ZstdFrames();
  for await (const chunk of source) yield* frames.split(chunk);
  frames.end();
}

async function readStart(chunks: AsyncIterator<Uint8Array>): Promise<Buffer> {
  let start = Buffer.alloc(0);
  while (start.length < 4) {
    const next = await chunks.next();
    // For Docker, an empty blob is an empty layer. Its old versions wrote such blobs.
    if (next.done && start.length === 0) return start;
    if (next.done) throw invalidImage("it is not an archive");
    start = Buffer.concat([start, next.value]);
  }
  return start;
}

async function* rejoin(start: Buffer, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Buffer> {
  try {
    yield start;
    for (let next = await rest.next(); !next.done; next = await rest.next()) {
      yield Buffer.from(next.value.buffer, next.value.byteOffset, next.value.length);
    }
  } finally {
    await rest.return?.();
  }
}

function isZlibError(error: unknown): boolean {
  if (typeof error !== "object" || error === null || !("code" in error)) return false;
  return /^(?:Z|ZSTD|ERR_ZLIB)_/.test(String(error.code)); // zlib's own error codes, recognised by their prefixes
}
