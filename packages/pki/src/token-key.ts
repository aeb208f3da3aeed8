import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";

/** A signing key without a certificate. Both halves are PEM (public SPKI, private PKCS#8). */
export interface TokenKey {
  readonly publicKey: string;
  readonly privateKey: string;
}

/** Generates an RSA key of 2048 bits, Kubernetes' default for signing service account tokens. */
export async function createTokenKey(): Promise<TokenKey> {
  return await promisify(generateKeyPair)("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
}
