import { createHash, randomBytes, sign, type KeyObject } from "node:crypto";
import "reflect-metadata";
import { Name, SubjectAlternativeNameExtension } from "@peculiar/x509";
import { alternativeNames, subjectName, type Validity } from "./certificate-content.ts";
import { der, objectIdentifier, tags, time } from "./der.ts";
import type { CertificateUsage, IssueOptions } from "./issue-options.ts";

/** The signer of a certificate. */
export interface Signer {
  /** Its name as in its own certificate, DER. */
  readonly name: Uint8Array;
  /** See {@link keyIdentifier}. */
  readonly keyId: Uint8Array;
  /** Private, ECDSA P-256. */
  readonly key: KeyObject;
}

/** The parts of a certificate besides its content. */
export interface LeafParts extends Validity {
  /** Public, ECDSA P-256. */
  readonly key: KeyObject;
  /** @default the subject itself, with this private key */
  readonly signer: Signer | { readonly key: KeyObject };
}

/** Length of a public key of P-256 in an encoded key, bytes. It is at the end. */
const pointBytes = 65;

const version3 = der(0xa0, der(tags.integer, Buffer.from([2])));
const signatureAlgorithm = der(tags.sequence, objectIdentifier("1.2.840.10045.4.3.2")); // ECDSA with SHA-256
const isTrue = der(tags.boolean, Buffer.from([0xff]));
const noAuthority = extension("2.5.29.19", der(tags.sequence), true);
const onlySigns = extension("2.5.29.15", der(tags.bitString, Buffer.from([7, 0x80])), true);
const usageIds: Readonly<Record<CertificateUsage, Buffer>> = {
  client: objectIdentifier("1.3.6.1.5.5.7.3.2"),
  server: objectIdentifier("1.3.6.1.5.5.7.3.1"),
};

/**
 * Creates a signed end certificate, PEM with a trailing line break (X.509 v3 with the profile of RFC 5280). Written here,
 * because the X.509 library needs milliseconds for it, which is a large part of what kip does to start a pod.
 *
 * @throws {RangeError} if no certificate can say what the options ask for
 */
export function leafCertificate(options: IssueOptions, parts: LeafParts): string {
  const name = Buffer.from(
    new Name(subjectName(options.commonName, options.organizations)).toArrayBuffer(),
  );
  const publicKey = parts.key.export({ type: "spki", format: "der" });
  const keyId = keyIdentifier(parts.key);
  const signer = { name, keyId, ...parts.signer };
  const content = der(
    tags.sequence,
    version3,
    der(tags.integer, serialNumber()),
    signatureAlgorithm,
    signer.name,
    der(tags.sequence, time(parts.notBefore), time(parts.notAfter)),
    name,
    publicKey,
    der(0xa3, der(tags.sequence, ...extensions(options, { keyId, signerId: signer.keyId }))),
  );
  const signature = bitString(sign("sha256", content, signer.key));
  return pem(der(tags.sequence, content, signatureAlgorithm, signature));
}

/** Identifies a public key in certificates: the SHA-1 hash of its point (RFC 5280, section 4.2.1.2). */
export function keyIdentifier(key: KeyObject): Buffer {
  const encoded = key.export({ type: "spki", format: "der" });
  return createHash("sha1").update(encoded.subarray(-pointBytes)).digest();
}

function extensions(
  options: IssueOptions,
  { keyId, signerId }: { readonly keyId: Uint8Array; readonly signerId: Uint8Array },
): readonly Uint8Array[] {
  if (options.usages.length === 0) throw new RangeError("usages must name one usage at least");
  const usages = options.usages.map((usage) => usageIds[usage]);
  const names = alternativeNames(options);
  return [
    noAuthority,
    onlySigns,
    extension("2.5.29.37", der(tags.sequence, ...usages)),
    extension("2.5.29.35", der(tags.sequence, der(0x80, signerId))),
    extension("2.5.29.14", der(tags.octetString, keyId)),
    ...(names.length > 0
      ? [new Uint8Array(new SubjectAlternativeNameExtension(names).rawData)]
      : []),
  ];
}

function extension(id: string, content: Uint8Array, isCritical = false): Buffer {
  const critical = isCritical ? [isTrue] : [];
  const value = der(tags.octetString, content);
  return der(tags.sequence, objectIdentifier(id), ...critical, value);
}

function bitString(bytes: Uint8Array): Buffer {
  return der(tags.bitString, Buffer.from([0]), bytes);
}

/** Random, 16 bytes. The first byte is neither 0 nor negative, as DER requires of a positive number of this length. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x3f) | 0x40, 0);
  return bytes;
}

function pem(certificate: Buffer): string {
  const lines = certificate.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}
