/** Whether data begins as gzip does. */
export function isGzip(data: Uint8Array): boolean {
  return data[0] === 0x1f && data[1] === 0x8b;
}

/** Unpacks gzip. @returns undefined if it is damaged or has more than so many bytes */
export function unpackGzip(data: Uint8Array, maxBytes: number): Uint8Array | undefined {
  // Loaded when it is needed: most user data is plain, and each module is a part of a cell's start.
  const { gunzipSync } = process.getBuiltinModule("node:zlib");
  try {
    return gunzipSync(data, { maxOutputLength: maxBytes });
  } catch {
    return undefined;
  }
}
