// The X.509 library below needs this polyfill to be loaded first.
import "reflect-metadata";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  type JsonGeneralNames,
  type JsonName,
  KeyUsageFlags,
  KeyUsagesExtension,
  type PublicKeyType,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
} from "@peculiar/x509";
import type { CertificateUsage, IssueOptions } from "./issue-options.ts";

/**
 * RFC 5280 allows 64 characters. But a kubelet's certificate has the name `system:node:` plus the node's name, which may have
 * 253. OpenSSL, Go and Node accept longer names.
 */
const maxCommonNameLength = 265;

const defaultSkewMs = 5 * 60_000;
const usageOids: Readonly<Record<CertificateUsage, string>> = {
  client: ExtendedKeyUsage.clientAuth,
  server: ExtendedKeyUsage.serverAuth,
};

/** Start and end of a certificate's validity. */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** A validity that starts slightly before `now`, and ends no later than `limit`. */
export function validity(
  now: number,
  options: Pick<IssueOptions, "validMs" | "notBeforeSkewMs"> & { readonly limit?: Date },
): Validity {
  if (!(options.validMs > 0)) throw new RangeError(`validMs must be above 0: ${options.validMs}`);
  const end = Math.min(now + options.validMs, options.limit?.getTime() ?? Infinity);
  return {
    notBefore: new Date(now - (options.notBeforeSkewMs ?? defaultSkewMs)),
    notAfter: new Date(end),
  };
}

/** The subject. Each organization is a separate attribute, as Go's crypto/x509 expects. */
export function subjectName(commonName: string, organizations: readonly string[] = []): JsonName {
  if (commonName.length < 1 || commonName.length > maxCommonNameLength)
    throw new RangeError(
      `commonName must have 1 to ${maxCommonNameLength} characters: "${commonName}"`,
    );
  return [...organizations.map((name) => ({ O: [name] })), { CN: [commonName] }];
}

/** Extensions for an authority that only signs end certificates. */
export async function authorityExtensions(key: PublicKeyType): Promise<Extension[]> {
  const usages: KeyUsageFlags =
    KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign | KeyUsageFlags.digitalSignature;
  return [
    new BasicConstraintsExtension(true, 0, true),
    new KeyUsagesExtension(usages, true),
    await SubjectKeyIdentifierExtension.create(key),
  ];
}

/** Extensions for an end certificate. */
export async function leafExtensions(
  options: IssueOptions,
  keys: { readonly subject: PublicKeyType; readonly issuer: PublicKeyType },
): Promise<Extension[]> {
  if (options.usages.length === 0) throw new RangeError("usages must name one usage at least");
  const names: JsonGeneralNames = [
    ...(options.dnsNames ?? []).map((value) => ({ type: "dns" as const, value })),
    ...(options.ipAddresses ?? []).map((value) => ({ type: "ip" as const, value })),
  ];
  return [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new ExtendedKeyUsageExtension(options.usages.map((usage) => usageOids[usage])),
    await AuthorityKeyIdentifierExtension.create(keys.issuer),
    await SubjectKeyIdentifierExtension.create(keys.subject),
    ...(names.length > 0 ? [new SubjectAlternativeNameExtension(names)] : []),
  ];
}
