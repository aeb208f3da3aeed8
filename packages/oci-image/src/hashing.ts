import { createHash } from "node:crypto";

/** A sha256 in progress. */
export interface StreamHash {
  /** Adds the next bytes. The caller may reuse the buffer afterwards. If a promise is returned, wait for it first. */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** 64 hex digits. */
  digest(): Promise<string>;
}

/** Computes several hashes at a time. */
export interface Hashing extends AsyncDisposable {
  sha256(): StreamHash;
}

/** Hashes in the calling thread. */
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
