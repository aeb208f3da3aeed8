import { invalidImage } from "../errors.ts";
import { gnuNumber, readGnuSegments, type SparseSegment } from "./sparse-map.ts";

/**
 * A 512-byte header block of the tar formats (v7, ustar, GNU), as defined by POSIX.1-1988 and GNU tar. Names are byte strings
 * with one character per byte, so that no encoding can hide a difference.
 */
export interface RawHeader {
  readonly name: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  /** Seconds since 1970. */
  readonly mtime: number;
  /** One character. v7's zero byte becomes "0". */
  readonly type: string;
  readonly linkName: string;
  /** Device numbers. 0 if it is not a device. */
  readonly device: DeviceNumbers;
  /** For an old GNU sparse file: its full size, its first segments, and whether more follow. */
  readonly sparse?: {
    readonly size: number;
    readonly segments: readonly SparseSegment[];
    readonly isContinued: boolean;
  };
}

/** Numbers of a device node. */
export interface DeviceNumbers {
  readonly major: number;
  readonly minor: number;
}

const magicOffset = 257;

/** One block as 32-bit words. The checksum field is words 37 and 38. */
const words = new Int32Array(128);
const bytes = Buffer.from(words.buffer);

/** The usual form of the fields from mode to checksum, written by GNU tar, Go and most others: digits that fill each field. */
const plainNumbers =
  /^([0-7]{7})\0([0-7]{7})\0([0-7]{7})\0([0-7]{11})\0([0-7]{11})\0([0-7]{6})\0 $/;

/**
 * Parses the header block at an offset. Undefined for a block of zeros. An image has one header per file, and the interpreter
 * runs this, so it uses few steps.
 *
 * @throws `IMAGE_INVALID`
 */
export function parseHeader(chunk: Buffer, at: number): RawHeader | undefined {
  chunk.copy(bytes, 0, at, at + 512);
  const sum = checksum();
  if (sum === 8 * 0x20 && bytes[148] === 0) return undefined;
  const text = bytes.toString("latin1");
  const plain = plainNumbers.exec(text.slice(100, 156));
  const stored = plain ? octal(plain[6]) : storedChecksum(text);
  // Some old writers treated bytes as signed numbers.
  if (stored !== sum && stored !== sum - 256 * countHighBytes()) {
    throw invalidImage("a layer is not a tar archive, or is damaged: a header's checksum is wrong");
  }
  const numbers = plain ? plainFields(plain) : oddFields(text);
  const type = bytes[156] === 0 ? "0" : text.charAt(156);
  const plainHeader = {
    name: fullName(text),
    ...numbers,
    type,
    linkName: textField(text, 157, 100),
    device: noDevice,
  };
  if (type === "3" || type === "4") return { ...plainHeader, device: deviceOf(text) };
  return type === "S" ? { ...plainHeader, sparse: sparseOf() } : plainHeader;
}

const noDevice: DeviceNumbers = { major: 0, minor: 0 };

/** v7 has no device numbers. Its bytes here are arbitrary. */
function deviceOf(text: string): DeviceNumbers {
  if (!text.startsWith("ustar", magicOffset)) return noDevice;
  const major = numberField(text, 329, 8, "device");
  const minor = numberField(text, 337, 8, "device");
  if (major > 0xfff || minor > 0xf_ffff) throw invalidImage("an entry has an impossible device");
  return { major, minor };
}

function sparseOf(): NonNullable<RawHeader["sparse"]> {
  return {
    size: gnuNumber(bytes, 483),
    segments: readGnuSegments(bytes, 386, 4),
    isContinued: bytes[482] !== 0,
  };
}

type Numbers = Pick<RawHeader, "mode" | "uid" | "gid" | "size" | "mtime">;

function plainFields(fields: RegExpExecArray): Numbers {
  return {
    mode: octal(fields[1]) & 0o7777,
    uid: octal(fields[2]),
    gid: octal(fields[3]),
    size: octal(fields[4]),
    mtime: octal(fields[5]),
  };
}

function oddFields(text: string): Numbers {
  return {
    mode: numberField(text, 100, 8, "mode") & 0o7777,
    uid: numberField(text, 108, 8, "owner"),
    gid: numberField(text, 116, 8, "group"),
    size: numberField(text, 124, 12, "size"),
    mtime: numberField(text, 136, 12, "time", true),
  };
}

function octal(digits = ""): number {
  return Number.parseInt(digits, 8);
}

function storedChecksum(text: string): number {
  const digits = textField(text, 148, 8).trim();
  return /^[0-7]+$/.test(digits) ? octal(digits) : -1;
}

/** The sum of the block's bytes, with the checksum itself counted as spaces. Most words of a header are zero. */
function checksum(): number {
  // Adds the even and the odd bytes of each word at once, in two sums of 16 bits. 128 times 2 bytes cannot overflow them.
  let sums = 0;
  for (let index = 0; index < 128; index++) {
    const word = words[index] ?? 0;
    if (word === 0 || index === 37 || index === 38) continue;
    sums += (word & 0x00ff00ff) + ((word >>> 8) & 0x00ff00ff);
  }
  return (sums & 0xffff) + (sums >>> 16) + 8 * 0x20;
}

function countHighBytes(): number {
  let count = 0;
  for (const [index, byte] of bytes.entries())
    if (byte > 127 && (index < 148 || index >= 156)) count++;
  return count;
}

/** Only POSIX's "ustar" has a name prefix. GNU's "ustar  " uses these bytes differently. */
function fullName(text: string): string {
  const name = textField(text, 0, 100);
  if (!text.startsWith("ustar\0", magicOffset)) return name;
  const prefix = textField(text, 345, 155);
  return prefix === "" ? name : `${prefix}/${name}`;
}

function textField(text: string, start: number, length: number): string {
  const zero = text.indexOf("\0", start);
  const end = zero === -1 || zero > start + length ? start + length : zero;
  return text.slice(start, end);
}

/** Parses octal digits, or GNU's base 256 if the first bit is set. */
function numberField(
  header: string,
  start: number,
  length: number,
  what: string,
  mayBeNegative = false,
): number {
  if ((bytes[start] ?? 0) >= 0x80) return base256(start, length, what, mayBeNegative);
  const text = textField(header, start, length).trim();
  if (text === "") return 0;
  if (!/^[0-7]+$/.test(text)) throw invalidImage(`an entry of a layer has a broken ${what}`);
  return octal(text);
}

function base256(start: number, length: number, what: string, mayBeNegative: boolean): number {
  let value = BigInt((bytes[start] ?? 0) & 0x7f);
  for (let index = start + 1; index < start + length; index++) {
    value = (value << 8n) | BigInt(bytes[index] ?? 0);
  }
  const number = Number(BigInt.asIntN(length * 8 - 1, value));
  if (!Number.isSafeInteger(number) || (number < 0 && !mayBeNegative)) {
    throw invalidImage(`an entry of a layer has an impossible ${what}`);
  }
  return number;
}
