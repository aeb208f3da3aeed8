import { invalidImage } from "../errors.ts";

/**
 * A 512-byte header block of the tar formats (v7, ustar, GNU), as POSIX.1-1988 and GNU tar define
 * them. Names are byte strings: one character per byte, so that no encoding can hide a difference.
 */
export interface RawHeader {
  readonly name: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  /** Seconds since 1970. */
  readonly mtime: number;
  /** One character, "0" for v7's zero byte. */
  readonly type: string;
  readonly linkName: string;
}

const magicOffset = 257;

/** Reads a header block; undefined for a block of zeros. @throws `IMAGE_INVALID` */
export function parseHeader(block: Buffer): RawHeader | undefined {
  let sum = 0;
  let signedSum = 0;
  for (let index = 0; index < 512; index++) {
    const inChecksum = index >= 148 && index < 156;
    const byte = inChecksum ? 0x20 : (block[index] ?? 0);
    sum += byte;
    signedSum += byte > 127 ? byte - 256 : byte;
  }
  if (sum === 8 * 0x20 && block[148] === 0) return undefined;
  const digits = textField(block, 148, 8).trim();
  const stored = /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : -1;
  // Some old writers took bytes for signed numbers.
  if (stored !== sum && stored !== signedSum) {
    throw invalidImage("a layer is no tar archive, or is damaged: a header's checksum is wrong");
  }
  const type = block[156] === 0 ? "0" : String.fromCharCode(block[156] ?? 0);
  return {
    name: fullName(block),
    mode: numberField(block, 100, 8, "mode") & 0o7777,
    uid: numberField(block, 108, 8, "owner"),
    gid: numberField(block, 116, 8, "group"),
    size: numberField(block, 124, 12, "size"),
    mtime: numberField(block, 136, 12, "time", true),
    type,
    linkName: textField(block, 157, 100),
  };
}

/** Only POSIX's "ustar" has a name prefix; GNU's "ustar  " uses the bytes for other things. */
function fullName(block: Buffer): string {
  const name = textField(block, 0, 100);
  if (block.toString("latin1", magicOffset, magicOffset + 6) !== "ustar\0") return name;
  const prefix = textField(block, 345, 155);
  return prefix === "" ? name : `${prefix}/${name}`;
}

function textField(block: Buffer, start: number, length: number): string {
  const zero = block.indexOf(0, start);
  const end = zero === -1 || zero > start + length ? start + length : zero;
  return block.toString("latin1", start, end);
}

/** Octal digits, or GNU's base 256 where the first bit is set. */
function numberField(
  block: Buffer,
  start: number,
  length: number,
  what: string,
  mayBeNegative = false,
): number {
  const first = block[start] ?? 0;
  if (first >= 0x80) return base256(block, start, length, what, mayBeNegative);
  const text = textField(block, start, length).trim();
  if (text === "") return 0;
  if (!/^[0-7]+$/.test(text)) throw invalidImage(`an entry of a layer has a broken ${what}`);
  return Number.parseInt(text, 8);
}

function base256(
  block: Buffer,
  start: number,
  length: number,
  what: string,
  mayBeNegative: boolean,
): number {
  let value = BigInt((block[start] ?? 0) & 0x7f);
  for (let index = start + 1; index < start + length; index++) {
    value = (value << 8n) | BigInt(block[index] ?? 0);
  }
  const number = Number(BigInt.asIntN(length * 8 - 1, value));
  if (!Number.isSafeInteger(number) || (number < 0 && !mayBeNegative)) {
    throw invalidImage(`an entry of a layer has an impossible ${what}`);
  }
  return number;
}
