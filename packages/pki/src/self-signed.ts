import { systemClock, type Clock } from "@kip/base";
import "reflect-metadata";
import { X509CertificateGenerator } from "@peculiar/x509";
import { leafExtensions, subjectName, validity } from "./certificate-content.ts";
import type { IssueOptions } from "./issue-options.ts";
import { exportPrivateKey, generateKeys, type KeyPair } from "./key-pair.ts";

/** Creates a key and a certificate signed by the same key, without an authority. */
export async function createSelfSigned(
  options: IssueOptions,
  clock: Clock = systemClock,
): Promise<KeyPair> {
  const keys = await generateKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: subjectName(options.commonName, options.organizations),
    keys,
    ...validity(clock.now(), options),
    extensions: await leafExtensions(options, { subject: keys.publicKey, issuer: keys.publicKey }),
  });
  return {
    certificate: `${certificate.toString("pem")}\n`,
    key: exportPrivateKey(keys.privateKey),
  };
}
