import { createPrivateKey, X509Certificate as NodeCertificate, type webcrypto } from "node:crypto";
import { systemClock, type Clock } from "@kip/base";
import "reflect-metadata";
import { X509Certificate, X509CertificateGenerator } from "@peculiar/x509";
import { PkiError } from "./errors.ts";
import {
  authorityExtensions,
  leafExtensions,
  subjectName,
  validity,
} from "./certificate-content.ts";
import type { IssueOptions } from "./issue-options.ts";
import { exportPrivateKey, generateKeys, importPrivateKey, type KeyPair } from "./key-pair.ts";

/** Options of {@link CertificateAuthority.create}. */
export interface CreateAuthorityOptions {
  /** Name of the authority, 1 to 265 characters. */
  readonly commonName: string;
  /** Validity from now on, milliseconds, above 0. */
  readonly validMs: number;
  readonly clock?: Clock;
}

/** Options of {@link CertificateAuthority.load}. */
export interface LoadAuthorityOptions {
  readonly clock?: Clock;
}

interface Parts {
  readonly pair: KeyPair;
  readonly signingKey: webcrypto.CryptoKey;
  readonly clock: Clock;
}

/** A self-signed authority that issues end certificates (X.509 v3 with the profile of RFC 5280). */
export class CertificateAuthority {
  /** Certificate and key, for storage and later {@link CertificateAuthority.load}. */
  readonly pair: KeyPair;
  readonly #own: X509Certificate;
  readonly #signingKey: webcrypto.CryptoKey;
  readonly #clock: Clock;

  private constructor(parts: Parts) {
    this.pair = parts.pair;
    this.#own = new X509Certificate(parts.pair.certificate);
    this.#signingKey = parts.signingKey;
    this.#clock = parts.clock;
  }

  /** The authority's certificate in PEM form, which peers trust. */
  get certificate(): string {
    return this.pair.certificate;
  }

  /** Creates a new authority with a new key. */
  static async create(options: CreateAuthorityOptions): Promise<CertificateAuthority> {
    const clock = options.clock ?? systemClock;
    const keys = await generateKeys();
    const certificate = await X509CertificateGenerator.createSelfSigned({
      name: subjectName(options.commonName),
      keys,
      ...validity(clock.now(), options),
      extensions: await authorityExtensions(keys.publicKey),
    });
    const pair = { certificate: pem(certificate), key: exportPrivateKey(keys.privateKey) };
    return new CertificateAuthority({ pair, signingKey: keys.privateKey, clock });
  }

  /**
   * Loads a stored authority.
   *
   * @throws {PkiError} `PKI_AUTHORITY_INVALID` if the certificate is unreadable, is not an authority's, or does not match the
   * key
   */
  static async load(
    pair: KeyPair,
    options: LoadAuthorityOptions = {},
  ): Promise<CertificateAuthority> {
    const reason = await invalidReason(pair);
    if (reason !== undefined) {
      throw new PkiError("PKI_AUTHORITY_INVALID", `Cannot load the authority: ${reason.text}`, {
        cause: reason.cause,
        remedy: "Restore the certificate and its key from the same authority, or make a new one",
      });
    }
    const signingKey = await importPrivateKey(pair.key);
    return new CertificateAuthority({ pair, signingKey, clock: options.clock ?? systemClock });
  }

  /** Creates a key and a certificate for it, signed by this authority. */
  async issue(options: IssueOptions): Promise<KeyPair> {
    const keys = await generateKeys();
    const certificate = await X509CertificateGenerator.create({
      subject: subjectName(options.commonName, options.organizations),
      issuer: this.#own.subjectName,
      publicKey: keys.publicKey,
      signingKey: this.#signingKey,
      ...validity(this.#clock.now(), { ...options, limit: this.#own.notAfter }),
      extensions: await leafExtensions(options, {
        subject: keys.publicKey,
        issuer: this.#own.publicKey,
      }),
    });
    return { certificate: pem(certificate), key: exportPrivateKey(keys.privateKey) };
  }
}

/** PEM with a trailing line break, so that certificates can be concatenated. */
function pem(certificate: X509Certificate): string {
  return `${certificate.toString("pem")}\n`;
}

async function invalidReason(
  pair: KeyPair,
): Promise<{ readonly text: string; readonly cause?: unknown } | undefined> {
  try {
    const certificate = new NodeCertificate(pair.certificate);
    if (!certificate.ca) return { text: "its certificate is not an authority's" };
    if (!certificate.checkPrivateKey(createPrivateKey(pair.key)))
      return { text: "its key does not belong to its certificate" };
    await importPrivateKey(pair.key);
    return undefined;
  } catch (error) {
    return { text: "its certificate or key cannot be read", cause: error };
  }
}
