/** Whether data begins with gzip's magic number. */
export function isGzip(data: Uint8Array): boolean {
  return data[0] === 0x1f && data[1] === 0x8b;
}

/** Unpacks gzip. @returns undefined if it is damaged or unpacks to more than `maxBytes` */
export function unpackGzip(data: Uint8Array, maxBytes: number): Uint8Array | undefined {
  // Loaded on demand, because most user data is not compressed, and each module delays a cell's start.
  const { gunzipSync } = process.getBuiltinModule("node:zlib");
  try {
    return gunzipSync(data, { maxOutputLength: maxBytes });
  } catch {
    return undefined;
  }
}
