import { X509Certificate } from "node:crypto";
import type { Clock } from "@kip/base";
import type { KeyPair } from "@kip/pki";
import type { KubeletTls } from "../kubelet-api/index.ts";

/** Options of {@link ServingTls}. */
export interface ServingTlsOptions {
  /** Reads certificate and key. Undefined if the operator configured none. */
  readonly pair: () => Promise<KeyPair | undefined>;
  /** Reads the authority of client certificates. */
  readonly clientCa: () => Promise<string>;
  /** Name and address in the self-signed certificate. */
  readonly nodeName: string;
  readonly ipAddress: string;
  readonly clock: Clock;
}

const selfSignedMs = 365 * 24 * 60 * 60 * 1000;

/** A self-signed certificate is replaced when less than this share of its lifetime remains. */
const renewedShare = 1 / 3;

/**
 * The certificates of a program's kubelet API: those in its files, or a self-signed one, which is replaced well before it
 * expires. For `kubelet` and `reloadTls` of a node's options.
 */
export class ServingTls {
  readonly #options: ServingTlsOptions;
  #selfSigned: { readonly pair: KeyPair; readonly renewAt: number } | undefined;
  #hadFiles = false;

  constructor(options: ServingTlsOptions) {
    this.#options = options;
  }

  /** Whether the last certificate is self-signed. */
  get isSelfSigned(): boolean {
    return !this.#hadFiles;
  }

  /** Reads the present certificates. @throws errors of reading; an error if the files have disappeared */
  async read(): Promise<KubeletTls> {
    const [given, clientCa] = await Promise.all([this.#options.pair(), this.#options.clientCa()]);
    if (!given && this.#hadFiles)
      throw new Error("Cannot read the serving certificate: its files are gone");
    this.#hadFiles = given !== undefined;
    return { ...(given ?? (await this.#ownPair())), clientCa };
  }

  async #ownPair(): Promise<KeyPair> {
    const { nodeName, ipAddress, clock } = this.#options;
    if (this.#selfSigned && clock.now() < this.#selfSigned.renewAt) return this.#selfSigned.pair;
    // Loaded on demand: it takes 7 MB, and many nodes are given their certificate.
    const { createSelfSigned } = await import("@kip/pki");
    const pair = await createSelfSigned(
      {
        commonName: nodeName,
        dnsNames: [nodeName],
        ipAddresses: [ipAddress],
        usages: ["server"],
        validMs: selfSignedMs,
      },
      clock,
    );
    const endsAt = new X509Certificate(pair.certificate).validToDate.getTime();
    this.#selfSigned = { pair, renewAt: endsAt - selfSignedMs * renewedShare };
    return pair;
  }
}
