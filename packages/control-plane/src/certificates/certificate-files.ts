import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@kip/base";
import {
  CertificateAuthority,
  createTokenKey,
  remainingMs,
  type IssueOptions,
  type KeyPair,
} from "@kip/pki";
import { readIfPresent, writeWhole } from "../host/files.ts";

const day = 24 * 3_600_000;
const authorityValidMs = 3650 * day;
const leafValidMs = 365 * day;
/** A certificate whose remaining validity is shorter is replaced at the next start. */
const renewBelowMs = 60 * day;

/** Options of an end certificate. All have the same validity. */
export type LeafOptions = Omit<IssueOptions, "validMs">;

/** A directory of certificates and keys, `<name>.crt` and `<name>.key`. Missing ones are created. */
export class CertificateFiles {
  readonly #directory: string;
  readonly #clock: Clock;

  constructor(options: { readonly directory: string; readonly clock: Clock }) {
    this.#directory = options.directory;
    this.#clock = options.clock;
  }

  /** Paths of a certificate and its key. */
  paths(name: string): { readonly certificate: string; readonly key: string } {
    const path = join(this.#directory, name);
    return { certificate: `${path}.crt`, key: `${path}.key` };
  }

  /** Reads or creates the authority with that name. */
  async authority(name: string, commonName: string): Promise<CertificateAuthority> {
    const stored = await this.#read(name);
    const clock = this.#clock;
    if (stored && remainingMs(stored.certificate, clock) > renewBelowMs)
      return await CertificateAuthority.load(stored, { clock });
    const made = await CertificateAuthority.create({
      commonName,
      validMs: authorityValidMs,
      clock,
    });
    await this.#write(name, made.pair);
    return made;
  }

  /** Returns the end certificate with that name. The stored one is used while it is valid for `options`. */
  async leaf(
    name: string,
    authority: CertificateAuthority,
    options: LeafOptions,
  ): Promise<KeyPair> {
    const stored = await this.#read(name);
    if (stored && this.#isGood(stored, authority, options)) return stored;
    const made = await authority.issue({ ...options, validMs: leafValidMs });
    await this.#write(name, made);
    return made;
  }

  /** The key that signs service account tokens: private in `.key`, public in `.pub`. */
  async tokenKey(name: string): Promise<{ readonly publicPath: string; readonly keyPath: string }> {
    const keyPath = this.paths(name).key;
    const publicPath = join(this.#directory, `${name}.pub`);
    const stored = await readIfPresent(keyPath);
    const made = stored === undefined ? await createTokenKey() : undefined;
    if (made) {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      await writeWhole(keyPath, made.privateKey);
    }
    // Written each time, in case the last start ended between the two files.
    const publicKey = createPublicKey(made?.privateKey ?? stored ?? "");
    await writeWhole(publicPath, publicKey.export({ type: "spki", format: "pem" }).toString());
    return { publicPath, keyPath };
  }

  #isGood(pair: KeyPair, authority: CertificateAuthority, options: LeafOptions): boolean {
    const certificate = new X509Certificate(pair.certificate);
    const issuer = new X509Certificate(authority.certificate);
    return (
      remainingMs(pair.certificate, this.#clock) > renewBelowMs &&
      certificate.checkIssued(issuer) &&
      certificate.verify(issuer.publicKey) &&
      certificate.checkPrivateKey(createPrivateKey(pair.key)) &&
      (options.dnsNames ?? []).every((name) => certificate.checkHost(name) !== undefined) &&
      (options.ipAddresses ?? []).every((address) => certificate.checkIP(address) !== undefined)
    );
  }

  async #read(name: string): Promise<KeyPair | undefined> {
    const paths = this.paths(name);
    const certificate = await readIfPresent(paths.certificate);
    const key = await readIfPresent(paths.key);
    return certificate === undefined || key === undefined ? undefined : { certificate, key };
  }

  /** Removes the old certificate first and writes the new one last. So if there is a certificate, there is a matching key. */
  async #write(name: string, pair: KeyPair): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const paths = this.paths(name);
    await rm(paths.certificate, { force: true });
    await writeWhole(paths.key, pair.key);
    await writeWhole(paths.certificate, pair.certificate);
  }
}
