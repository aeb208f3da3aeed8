import { createPrivateKey, KeyObject, webcrypto } from "node:crypto";

/** A certificate and its private key, both PEM; the key is PKCS#8, ECDSA P-256. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** What every key of this package is: small, quick to make, and known to Go, Node and OpenSSL. */
export const keyAlgorithm = { name: "ECDSA", namedCurve: "P-256" } as const;

/** Makes a new key; its private half can be exported. */
export async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(keyAlgorithm, true, ["sign", "verify"]);
}

/** The private key as PKCS#8 PEM. */
export function exportPrivateKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: "pkcs8", format: "pem" }).toString();
}

/** Reads a private key of any PEM form that Node knows (SEC1 too), for signing. */
export async function importPrivateKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
  return await webcrypto.subtle.importKey("pkcs8", der, keyAlgorithm, false, ["sign"]);
}
