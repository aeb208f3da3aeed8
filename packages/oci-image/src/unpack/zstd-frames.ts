import { invalidImage } from "../errors.ts";

/** Collecting `need` bytes of a header in `#head`. */
interface Collecting {
  readonly at: "magic" | "skip-size" | "descriptor" | "block";
  readonly need: number;
}

/** Passing on the next `left` bytes. */
interface Passing {
  readonly at: "header-rest" | "content" | "checksum" | "skip";
  left: number;
}

type State = Collecting | Passing;

const frameMagic = [0x28, 0xb5, 0x2f, 0xfd];
const dictionaryBytes = [0, 1, 2, 4] as const;
const magic: State = { at: "magic", need: 4 };
const block: State = { at: "block", need: 3 };

/**
 * Splits a zstd stream at the ends of its frames, and removes skippable frames (RFC 8878, 3.1).
 *
 * Node's decompressor stops at the end of a frame and drops the rest of the chunk. It only continues with the next frame if the
 * chunk ends where the frame does. Layers of zstd:chunked and pzstd have many frames.
 */
export class ZstdFrames {
  #state: State = magic;
  readonly #head = Buffer.alloc(4);
  #headLength = 0;
  #isLastBlock = false;
  #hasChecksum = false;

  /** Splits a chunk into pieces. Each piece belongs to a single frame. */
  *split(chunk: Buffer): Generator<Buffer> {
    let start = 0;
    let at = 0;
    while (at < chunk.length) {
      const state = this.#state;
      if ("left" in state) {
        const length = Math.min(state.left, chunk.length - at);
        at += length;
        state.left -= length;
        if (state.at === "skip") start = at;
        if (state.left === 0) this.#passed(state.at);
      } else {
        this.#head[this.#headLength++] = chunk[at++] ?? 0;
        if (this.#headLength === state.need) this.#collected(state.at);
        // Holds back the first bytes of a frame that may be skippable.
        if (state.at === "magic" || state.at === "skip-size") start = at;
        if (state.at === "magic" && this.#state.at === "descriptor") yield Buffer.from(frameMagic);
      }
      if (this.#state === magic && this.#headLength === 0 && at > start) {
        yield chunk.subarray(start, at);
        start = at;
      }
    }
    if (at > start) yield chunk.subarray(start, at);
  }

  /** @throws `IMAGE_INVALID` if the stream ends within a frame */
  end(): void {
    if (this.#state !== magic || this.#headLength > 0) {
      throw invalidImage("it is damaged: its zstd stream stops in a frame");
    }
  }

  #collected(at: Collecting["at"]): void {
    this.#headLength = 0;
    const word = this.#head.readUInt32LE(0);
    if (at === "magic") this.#state = afterMagic(word);
    else if (at === "skip-size") this.#enter({ at: "skip", left: word });
    else if (at === "descriptor") this.#descriptor(word & 0xff);
    else this.#block(word & 0xff_ffff);
  }

  #descriptor(bits: number): void {
    const isSingleSegment = (bits & 0x20) !== 0;
    const sizeFlag = bits >> 6;
    this.#hasChecksum = (bits & 0x04) !== 0;
    const sizeBytes = sizeFlag === 0 ? Number(isSingleSegment) : 1 << sizeFlag;
    const dictionary = dictionaryBytes[bits & 3] ?? 0;
    this.#enter({ at: "header-rest", left: Number(!isSingleSegment) + dictionary + sizeBytes });
  }

  #block(bits: number): void {
    this.#isLastBlock = (bits & 1) !== 0;
    const type = (bits >> 1) & 3;
    if (type === 3) throw invalidImage("it is damaged: its zstd stream has an unknown block");
    this.#enter({ at: "content", left: type === 1 ? 1 : bits >> 3 });
  }

  #enter(state: Passing): void {
    this.#state = state;
    if (state.left === 0) this.#passed(state.at);
  }

  #passed(at: Passing["at"]): void {
    const isMore = at === "header-rest" || (at === "content" && !this.#isLastBlock);
    if (isMore) this.#state = block;
    else if (at === "content" && this.#hasChecksum) this.#state = { at: "checksum", left: 4 };
    else this.#state = magic;
  }
}

function afterMagic(word: number): State {
  if (word === 0xfd2fb528) return { at: "descriptor", need: 1 };
  if ((word & 0xfffffff0) >>> 0 === 0x184d2a50) return { at: "skip-size", need: 4 };
  throw invalidImage("it is damaged: its zstd stream has something between frames");
}
