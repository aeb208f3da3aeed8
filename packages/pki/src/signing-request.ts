import "reflect-metadata";
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from "@peculiar/x509";
import { subjectName } from "./certificate-content.ts";
import type { IssueOptions } from "./issue-options.ts";
import { exportPrivateKey, generateKeys } from "./key-pair.ts";

/** A certificate request, for another authority to sign. */
export interface SigningRequest {
  /** PKCS#10, PEM. */
  readonly request: string;
  /** Private key of the request, PEM (PKCS#8, ECDSA P-256). */
  readonly key: string;
}

/** Creates a key and a certificate request for it. The signer decides what the certificate may be used for. */
export async function createSigningRequest(
  options: Pick<IssueOptions, "commonName" | "organizations" | "dnsNames" | "ipAddresses">,
): Promise<SigningRequest> {
  const keys = await generateKeys();
  const names: JsonGeneralNames = [
    ...(options.dnsNames ?? []).map((value) => ({ type: "dns" as const, value })),
    ...(options.ipAddresses ?? []).map((value) => ({ type: "ip" as const, value })),
  ];
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: subjectName(options.commonName, options.organizations),
    keys,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    extensions: names.length > 0 ? [new SubjectAlternativeNameExtension(names)] : [],
  });
  return { request: `${request.toString("pem")}\n`, key: exportPrivateKey(keys.privateKey) };
}
