const pattern = /^sha256:[0-9a-f]{64}$/;

/**
 * Whether a text is a digest that we accept. Digests come from strangers and become file names and
 * parts of URLs, so nothing else ever passes for one (CVE-2024-3727). sha256 only.
 */
export function isDigest(text: string): boolean {
  return pattern.test(text);
}

/** The 64 hex digits of a digest that {@link isDigest} accepted. */
export function digestHex(digest: string): string {
  if (!isDigest(digest)) throw new TypeError(`Not a digest: "${digest}"`);
  return digest.slice("sha256:".length);
}
