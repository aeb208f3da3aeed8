/** The tags of DER (ITU-T X.690) that a certificate needs. */
export const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectIdentifier: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
} as const;

/** Encodes one value: its tag, its length, and its content, which may have several parts. */
export function der(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const value = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag, ...lengthBytes(value.length)]), value]);
}

/** A short length is one byte. A longer one follows a byte with the number of its bytes. */
function lengthBytes(length: number): readonly number[] {
  if (length < 0x80) return [length];
  const digits = bytesOf(length, 0x100);
  return [0x80 | digits.length, ...digits];
}

/** @param text numbers with dots in between, at least two */
export function objectIdentifier(text: string): Buffer {
  const [first = 0, second = 0, ...others] = text.split(".").map(Number);
  const arcs = [first * 40 + second, ...others].map((arc) => {
    const digits = bytesOf(arc, 0x80);
    return digits.map((digit, index) => (index < digits.length - 1 ? digit | 0x80 : digit));
  });
  return der(tags.objectIdentifier, Buffer.from(arcs.flat()));
}

/** In whole seconds. RFC 5280 requires the form with two digits of the year until 2049. */
export function time(date: Date): Buffer {
  const digits = `${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, "")}Z`;
  return date.getUTCFullYear() < 2050
    ? der(tags.utcTime, Buffer.from(digits.slice(2)))
    : der(tags.generalizedTime, Buffer.from(digits));
}

/** The digits of a number, 0 or more, the most significant first. */
function bytesOf(value: number, base: number): readonly number[] {
  const rest = Math.floor(value / base);
  return rest === 0 ? [value] : [...bytesOf(rest, base), value % base];
}
