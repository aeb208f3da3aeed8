import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";

/** A signing key without a certificate: both halves PEM (public SPKI, private PKCS#8). */
export interface TokenKey {
  readonly publicKey: string;
  readonly privateKey: string;
}

/** Makes an RSA key of 2048 bits: what Kubernetes signs service-account tokens with by default. */
export async function createTokenKey(): Promise<TokenKey> {
  return await promisify(generateKeyPair)("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
}
