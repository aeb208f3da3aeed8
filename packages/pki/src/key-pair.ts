import { createPrivateKey, KeyObject, webcrypto } from "node:crypto";

/** A certificate and its private key, both in PEM form. The key is PKCS#8, ECDSA P-256. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** The algorithm of all keys of this package: small, quick to generate, and supported by Go, Node and OpenSSL. */
export const keyAlgorithm = { name: "ECDSA", namedCurve: "P-256" } as const;

/** Generates a key. Its private half can be exported. */
export async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(keyAlgorithm, true, ["sign", "verify"]);
}

/** The private key as PKCS#8 PEM. */
export function exportPrivateKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: "pkcs8", format: "pem" }).toString();
}

/** Reads a private key for signing, in any PEM form that Node supports, including SEC1. */
export async function importPrivateKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
  return await webcrypto.subtle.importKey("pkcs8", der, keyAlgorithm, false, ["sign"]);
}
