import { GrowingBuffer } from "@kip/base";
import { protocolError } from "./headers.ts";

/** A SPDY/3.1 frame. `headerBlock` is compressed. A data frame may be split into several pieces. */
export type Frame =
  | {
      readonly type: "synStream";
      readonly streamId: number;
      readonly fin: boolean;
      readonly unidirectional: boolean;
      readonly headerBlock: Buffer;
    }
  | {
      readonly type: "synReply" | "headers";
      readonly streamId: number;
      readonly fin: boolean;
      readonly headerBlock: Buffer;
    }
  | { readonly type: "rstStream"; readonly streamId: number; readonly status: number }
  | { readonly type: "settings"; readonly settings: ReadonlyMap<number, number> }
  | { readonly type: "ping"; readonly id: number }
  | { readonly type: "goAway"; readonly lastStreamId: number; readonly status: number }
  | { readonly type: "windowUpdate"; readonly streamId: number; readonly delta: number }
  | {
      readonly type: "data";
      readonly streamId: number;
      readonly fin: boolean;
      readonly data: Buffer;
    }
  /** A control frame of an unknown type, to be ignored. */
  | { readonly type: "unknown"; readonly code: number };

/** Status codes of RST_STREAM frames. */
export const rstStatus = {
  protocolError: 1,
  refusedStream: 3,
  cancel: 5,
  streamAlreadyClosed: 9,
} as const;

/** Status codes of GOAWAY frames. */
export const goAwayStatus = { ok: 0, protocolError: 1 } as const;

/** ID of the SETTINGS entry for the initial window of streams. */
export const initialWindowSetting = 7;

const version = 3;
const codes = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
} as const;
const finFlag = 1;
const unidirectionalFlag = 2;

/** A data frame whose end has not arrived yet. */
interface OpenDataFrame {
  readonly streamId: number;
  readonly fin: boolean;
  left: number;
}

/**
 * Splits bytes into frames. Buffers at most one control frame. Passes the bytes of data frames on as they arrive, so that a
 * frame of 16 MiB takes no memory.
 */
export class FrameParser {
  readonly #maxControlBytes: number;
  readonly #rest = new GrowingBuffer();
  /** Number of bytes to wait for before parsing again, so that bytes that arrive one by one are not copied repeatedly. */
  #needed = 8;
  #data: OpenDataFrame | undefined;

  /** @param maxControlBytes maximum payload of a control frame */
  constructor(maxControlBytes: number) {
    this.#maxControlBytes = maxControlBytes;
  }

  /** Adds bytes and yields the frames that are now complete. @throws VK_SPDY_PROTOCOL */
  *push(chunk: Buffer): Generator<Frame, void, void> {
    let rest = chunk;
    if (this.#rest.length > 0 || chunk.length < this.#needed) {
      this.#rest.append(chunk);
      if (this.#rest.length < this.#needed) return;
      rest = this.#rest.take();
    }
    for (;;) {
      if (this.#data !== undefined) {
        if (rest.length === 0) break;
        const piece = rest.subarray(0, this.#data.left);
        rest = rest.subarray(piece.length);
        yield this.#dataPiece(this.#data, piece);
        continue;
      }
      if (rest.length < 8) break;
      const length = rest.readUInt32BE(4) & 0xffffff;
      if ((rest.readUInt8(0) & 0x80) === 0) {
        const frame = this.#dataStart(rest, length);
        rest = rest.subarray(8);
        if (frame) yield frame;
        continue;
      }
      if (length > this.#maxControlBytes)
        throw protocolError(`a control frame of ${length} bytes is too long`);
      if (rest.length < 8 + length) break;
      const frame = parseControl(rest, length);
      rest = rest.subarray(8 + length);
      yield frame;
    }
    this.#keep(rest);
  }

  #keep(rest: Buffer): void {
    if (rest.length > 0) this.#rest.append(rest);
    if (this.#data !== undefined) this.#needed = 1;
    else this.#needed = rest.length < 8 ? 8 : 8 + (rest.readUInt32BE(4) & 0xffffff);
  }

  #dataStart(bytes: Buffer, length: number): Frame | undefined {
    const streamId = bytes.readUInt32BE(0);
    if (streamId === 0) throw protocolError("a data frame has no stream");
    const fin = (bytes.readUInt8(4) & finFlag) !== 0;
    if (length > 0) {
      this.#data = { streamId, fin, left: length };
      return undefined;
    }
    return fin ? { type: "data", streamId, fin, data: bytes.subarray(0, 0) } : undefined;
  }

  #dataPiece(frame: OpenDataFrame, data: Buffer): Frame {
    frame.left -= data.length;
    if (frame.left === 0) this.#data = undefined;
    return { type: "data", streamId: frame.streamId, fin: frame.fin && frame.left === 0, data };
  }
}

function parseControl(bytes: Buffer, length: number): Frame {
  if ((bytes.readUInt16BE(0) & 0x7fff) !== version)
    throw protocolError("a frame is of another version of SPDY");
  const code = bytes.readUInt16BE(2);
  const flags = bytes.readUInt8(4);
  const payload = bytes.subarray(8, 8 + length);
  const fin = (flags & finFlag) !== 0;
  switch (code) {
    case codes.synStream: {
      needs(payload, 10);
      const unidirectional = (flags & unidirectionalFlag) !== 0;
      const streamId = id(payload, 0);
      return {
        type: "synStream",
        streamId,
        fin,
        unidirectional,
        headerBlock: payload.subarray(10),
      };
    }
    case codes.synReply:
    case codes.headers: {
      needs(payload, 4);
      const type = code === codes.headers ? "headers" : "synReply";
      return { type, streamId: id(payload, 0), fin, headerBlock: payload.subarray(4) };
    }
    case codes.settings:
      return { type: "settings", settings: parseSettings(payload) };
    default:
      return parseFixed(code, payload);
  }
}

/** Parses the control frames that only consist of a few numbers. */
function parseFixed(code: number, payload: Buffer): Frame {
  switch (code) {
    case codes.rstStream:
      needs(payload, 8);
      return { type: "rstStream", streamId: id(payload, 0), status: payload.readUInt32BE(4) };
    case codes.ping:
      needs(payload, 4);
      return { type: "ping", id: payload.readUInt32BE(0) };
    case codes.goAway:
      needs(payload, 8);
      return {
        type: "goAway",
        lastStreamId: payload.readUInt32BE(0) & 0x7fffffff,
        status: payload.readUInt32BE(4),
      };
    case codes.windowUpdate:
      needs(payload, 8);
      return {
        type: "windowUpdate",
        streamId: payload.readUInt32BE(0) & 0x7fffffff,
        delta: payload.readUInt32BE(4) & 0x7fffffff,
      };
    default:
      return { type: "unknown", code };
  }
}

function parseSettings(payload: Buffer): ReadonlyMap<number, number> {
  needs(payload, 4);
  const count = payload.readUInt32BE(0);
  if (payload.length !== 4 + count * 8)
    throw protocolError("a SETTINGS frame has a wrong number of entries");
  const settings = new Map<number, number>();
  for (let offset = 4; offset < payload.length; offset += 8) {
    settings.set(payload.readUInt32BE(offset) & 0xffffff, payload.readUInt32BE(offset + 4));
  }
  return settings;
}

function needs(payload: Buffer, length: number): void {
  if (payload.length < length) throw protocolError("a control frame is too short");
}

function id(payload: Buffer, offset: number): number {
  const streamId = payload.readUInt32BE(offset) & 0x7fffffff;
  if (streamId === 0) throw protocolError("a control frame has no stream");
  return streamId;
}

/** Encodes a frame. Data frames hold at most 16 MiB − 1. */
export function encodeFrame(frame: Exclude<Frame, { type: "unknown" }>): Buffer {
  switch (frame.type) {
    case "data":
      return Buffer.concat([dataHeader(frame.streamId, frame.data.length, frame.fin), frame.data]);
    case "synStream": {
      const flags = (frame.fin ? finFlag : 0) | (frame.unidirectional ? unidirectionalFlag : 0);
      const fixed = Buffer.alloc(10); // no associated stream, highest priority, no slot
      fixed.writeUInt32BE(frame.streamId);
      return control(codes.synStream, flags, Buffer.concat([fixed, frame.headerBlock]));
    }
    case "synReply":
    case "headers":
      return control(
        codes[frame.type],
        frame.fin ? finFlag : 0,
        Buffer.concat([numbers(frame.streamId), frame.headerBlock]),
      );
    case "rstStream":
      return control(codes.rstStream, 0, numbers(frame.streamId, frame.status));
    case "settings": {
      const entries = [...frame.settings].flat();
      return control(codes.settings, 0, numbers(frame.settings.size, ...entries));
    }
    case "ping":
      return control(codes.ping, 0, numbers(frame.id));
    case "goAway":
      return control(codes.goAway, 0, numbers(frame.lastStreamId, frame.status));
    default:
      return control(codes.windowUpdate, 0, numbers(frame.streamId, frame.delta));
  }
}

/** The eight bytes before the content of a data frame. */
export function dataHeader(streamId: number, length: number, fin: boolean): Buffer {
  const header = numbers(streamId, length);
  header.writeUInt8(fin ? finFlag : 0, 4);
  return header;
}

function control(code: number, flags: number, payload: Buffer): Buffer {
  const header = numbers(0, payload.length);
  header.writeUInt16BE(0x8000 | version, 0);
  header.writeUInt16BE(code, 2);
  header.writeUInt8(flags, 4);
  return Buffer.concat([header, payload]);
}

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, index) => bytes.writeUInt32BE(value, 4 * index));
  return bytes;
}
