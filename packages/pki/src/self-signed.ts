import { systemClock, type Clock } from "@kip/base";
import { validity } from "./certificate-content.ts";
import type { IssueOptions } from "./issue-options.ts";
import { generateKeyObjects, keyText, type KeyPair } from "./key-pair.ts";
import { leafCertificate } from "./leaf-certificate.ts";

/** Creates a key and a certificate signed by the same key, without an authority. */
export async function createSelfSigned(
  options: IssueOptions,
  clock: Clock = systemClock,
): Promise<KeyPair> {
  const { publicKey, privateKey } = await generateKeyObjects();
  const certificate = leafCertificate(options, {
    ...validity(clock.now(), options),
    key: publicKey,
    signer: { key: privateKey },
  });
  return { certificate, key: keyText(privateKey) };
}
