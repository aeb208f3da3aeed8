import { createHash } from "node:crypto";

/** A sha256 that is being made. */
export interface StreamHash {
  /** Takes the next bytes, which may be used otherwise afterwards. A promise if it must be waited for. */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** 64 hex digits. */
  digest(): Promise<string>;
}

/** Makes hashes, several at a time. */
export interface Hashing extends AsyncDisposable {
  sha256(): StreamHash;
}

/** Hashes where it is called. */
export const localHashing: Hashing = {
  sha256: () => {
    const hash = createHash("sha256");
    return {
      update: (chunk) => void hash.update(chunk),
      digest: async () => await Promise.resolve(hash.digest("hex")),
    };
  },
  [Symbol.asyncDispose]: async () => {},
};
