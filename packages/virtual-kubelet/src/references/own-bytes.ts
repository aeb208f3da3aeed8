/**
 * Bytes of a text in memory of their own. `Buffer.from` cuts small ones out of blocks of 8 KiB, of which
 * each keeps all for as long as it is kept: pods keep theirs for life.
 */
export function ownBytes(text: string, encoding: "utf8" | "base64" = "utf8"): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  return bytes.subarray(0, bytes.write(text, encoding));
}
