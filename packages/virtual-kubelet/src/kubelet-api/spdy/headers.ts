import zlib from "node:zlib";
import { VirtualKubeletError } from "../../errors.ts";
import { spdyDictionary, spdyDictionaryId } from "./dictionary.ts";

/** Headers of a stream, with names in lower case. Several values of a name are separated by NUL. */
export type SpdyHeaders = ReadonlyMap<string, string>;

/** Maximum number of headers in a block. */
const maxHeaders = 64;

/**
 * Decodes header blocks. All blocks of one direction of a connection share a compression context. So every block must be
 * decoded here, in order, even if it is not used.
 */
export class HeaderDecoder {
  readonly #inflate: zlib.Inflate;
  readonly #maxBytes: number;
  #output: Buffer[] = [];
  #outputBytes = 0;
  #fail: ((error: Error) => void) | undefined;
  #error: Error | undefined;

  /** @param maxBytes maximum size of a decompressed block */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#inflate = zlib.createInflate({
      dictionary: spdyDictionary,
      flush: zlib.constants.Z_SYNC_FLUSH,
      chunkSize: 4096,
    });
    this.#inflate.on("data", (chunk: Buffer) => {
      this.#outputBytes += chunk.length;
      if (this.#outputBytes <= this.#maxBytes) this.#output.push(chunk);
      // Stops a decompression bomb at most one chunk after the limit.
      else this.#stop(protocolError(`a header block is longer than ${this.#maxBytes} bytes`));
    });
    this.#inflate.on("error", (cause) => {
      this.#stop(protocolError("a header block cannot be decompressed", cause));
    });
  }

  /**
   * Decodes a block.
   * @throws VK_SPDY_PROTOCOL if it is malformed or too long; the decoder cannot be used afterwards
   */
  async decode(block: Buffer): Promise<SpdyHeaders> {
    if (this.#error) throw this.#error;
    this.#output = [];
    this.#outputBytes = 0;
    await new Promise<void>((resolve, reject) => {
      this.#fail = reject;
      this.#inflate.write(block, (error) => {
        if (error) reject(protocolError("a header block cannot be decompressed", error));
        else resolve();
      });
    });
    this.#fail = undefined;
    return parseHeaders(Buffer.concat(this.#output));
  }

  /** Frees the decompressor. */
  close(): void {
    this.#stop(protocolError("the connection is closed"));
  }

  #stop(error: Error): void {
    this.#error ??= error;
    this.#inflate.destroy();
    this.#fail?.(error);
  }
}

/**
 * Encodes header blocks as stored (uncompressed) blocks of a deflate stream. A server's headers are a few bytes, so compressing
 * them is not worth the memory and time.
 */
export class HeaderEncoder {
  #started = false;

  /** @param headers at most 65,535 bytes together */
  encode(headers: SpdyHeaders): Buffer {
    const content = serializeHeaders(headers);
    const parts: Buffer[] = [];
    if (!this.#started) parts.push(zlibStart());
    this.#started = true;
    // zlib calls the empty block a sync flush. Readers rely on it to deliver everything before it.
    parts.push(storedBlock(content), storedBlock(Buffer.alloc(0)));
    return Buffer.concat(parts);
  }
}

/** Serializes a header block before compression: SPDY protocol, draft 3, section 2.6.10. */
export function serializeHeaders(headers: SpdyHeaders): Buffer {
  const parts = [uint32(headers.size)];
  for (const [name, value] of headers) {
    for (const text of [Buffer.from(name.toLowerCase()), Buffer.from(value)]) {
      parts.push(uint32(text.length), text);
    }
  }
  return Buffer.concat(parts);
}

/** Reverse of {@link serializeHeaders}. @throws VK_SPDY_PROTOCOL */
export function parseHeaders(content: Buffer): SpdyHeaders {
  let offset = 0;
  const number = (): number => {
    if (offset + 4 > content.length) throw protocolError("a header block ends too soon");
    offset += 4;
    return content.readUInt32BE(offset - 4);
  };
  const text = (): string => {
    const length = number();
    if (offset + length > content.length) throw protocolError("a header block ends too soon");
    offset += length;
    return content.toString("utf8", offset - length, offset);
  };
  const count = number();
  if (count > maxHeaders) throw protocolError(`a header block has ${count} headers`);
  const headers = new Map<string, string>();
  for (let index = 0; index < count; index++) {
    const name = text().toLowerCase();
    if (name === "" || headers.has(name)) throw protocolError("a header has no name of its own");
    headers.set(name, text());
  }
  if (offset !== content.length) throw protocolError("a header block has bytes left over");
  return headers;
}

/** The error that ends the connection of a peer that violates the protocol. */
export function protocolError(reason: string, cause?: unknown): VirtualKubeletError {
  return new VirtualKubeletError("VK_SPDY_PROTOCOL", `Cannot read SPDY frames: ${reason}`, {
    cause,
  });
}

function zlibStart(): Buffer {
  // 32 KiB window, preset dictionary, fastest level; RFC 1950 section 2.2.
  return Buffer.concat([Buffer.from([0x78, 0x20]), uint32(spdyDictionaryId)]);
}

function storedBlock(content: Buffer): Buffer {
  const block = Buffer.alloc(5 + content.length); // RFC 1951 section 3.2.4; byte 0: not the last block
  block.writeUInt16LE(content.length, 1);
  block.writeUInt16LE(content.length ^ 0xffff, 3);
  content.copy(block, 5);
  return block;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
