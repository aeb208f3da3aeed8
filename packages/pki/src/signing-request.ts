import "reflect-metadata";
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from "@peculiar/x509";
import { subjectName } from "./certificate-content.ts";
import type { IssueOptions } from "./issue-options.ts";
import { exportPrivateKey, generateKeys } from "./key-pair.ts";

/** A request for a certificate, to be signed by another authority. */
export interface SigningRequest {
  /** PKCS#10, PEM. */
  readonly request: string;
  /** Private key that the request was made with, PEM (PKCS#8, ECDSA P-256). */
  readonly key: string;
}

/** Makes a key and a request to certify it. What it may be used for is up to the signer. */
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
