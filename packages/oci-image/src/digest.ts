import { createHash } from "node:crypto";
import { digestMismatch } from "./errors.ts";
import { localHashing, type Hashing } from "./hashing.ts";

const pattern = /^sha256:[0-9a-f]{64}$/;

/**
 * Whether a text is an acceptable digest. Digests come from strangers and become file names and parts of URLs, so nothing else
 * may be accepted (CVE-2024-3727). Only sha256 is supported.
 */
export function isDigest(text: string): boolean {
  return pattern.test(text);
}

/** The 64 hex digits of a digest that {@link isDigest} has accepted. */
export function digestHex(digest: string): string {
  if (!isDigest(digest)) throw new TypeError(`Not a digest: "${digest}"`);
  return digest.slice("sha256:".length);
}

/** The digest of some bytes. */
export function digestOf(bytes: Uint8Array | string): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** Passes a stream on. Fails at its end if the content does not match its descriptor, or earlier if it is too long. */
export async function* verified(
  source: AsyncIterable<Uint8Array>,
  expected: { readonly digest: string; readonly size: number },
  hashing: Hashing = localHashing,
): AsyncGenerator<Uint8Array> {
  const hash = hashing.sha256();
  let size = 0;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > expected.size) {
      throw digestMismatch(`content ${expected.digest}`, `${expected.size} bytes`, "more");
    }
    const room = hash.update(chunk);
    if (room) await room;
    yield chunk;
  }
  if (size !== expected.size) {
    throw digestMismatch(`content ${expected.digest}`, `${expected.size} bytes`, `${size}`);
  }
  const actual = `sha256:${await hash.digest()}`;
  if (actual !== expected.digest) throw digestMismatch("content", expected.digest, actual);
}
