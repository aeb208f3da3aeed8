import { type Clock } from "@kip/base";
import { cellServerName, type CellIdentity } from "@kip/agent-api";
import { isAlreadyExists, isNotFound, K8sError, paths, type ApiClient } from "@kip/k8s-client";
import type { Secret } from "@kip/k8s-types";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import { ProviderError } from "../errors.ts";

const day = 24 * 60 * 60 * 1000;

/** Lifetime of a cell's certificate and of kip's own, milliseconds: 7 days. Both are renewed after half of it. */
export const identityValidMs = 7 * day;
const caValidMs = 3650 * day;

/** Where the certificate authority is stored. */
export interface IdentityOptions {
  readonly client: ApiClient;
  /** Namespace of the Secret, which is kip's own. */
  readonly namespace: string;
  readonly secretName: string;
  readonly clock: Clock;
}

/**
 * Issues the certificates of kip and its cells. The CA and its key are in a Secret, so that every kip of an installation can
 * reach the same cells from any machine.
 */
export class CellIdentities {
  readonly #authority: CertificateAuthority;
  readonly #clock: Clock;
  #client: { readonly pair: Promise<KeyPair>; readonly expires: number } | undefined;

  private constructor(authority: CertificateAuthority, clock: Clock) {
    this.#authority = authority;
    this.#clock = clock;
  }

  /**
   * Reads the CA's Secret, or creates it. If two kips start at once, both use the one that was written first.
   *
   * @throws {ProviderError} `IDENTITY_SECRET_INVALID` if the Secret exists without a key pair
   */
  static async open(options: IdentityOptions): Promise<CellIdentities> {
    const pair = await readOrCreateAuthority(options);
    return new CellIdentities(await CertificateAuthority.load(pair), options.clock);
  }

  /** PEM of the CA certificate. */
  get ca(): string {
    return this.#authority.certificate;
  }

  /** Issues a new identity that is bound to the cell's name. */
  async issueForCell(cellName: string): Promise<{ identity: CellIdentity; expires: Date }> {
    const pair = await this.#authority.issue({
      commonName: cellName,
      dnsNames: [cellServerName(cellName)],
      usages: ["server"],
      validMs: identityValidMs,
    });
    return {
      identity: { cellName, ca: this.ca, certificate: pair.certificate, key: pair.key },
      expires: new Date(this.#clock.now() + identityValidMs),
    };
  }

  /** Kip's own client certificate, which all connections share. It is renewed after half of its lifetime. */
  async clientPair(): Promise<KeyPair> {
    const now = this.#clock.now();
    if (this.#client && this.#client.expires - now > identityValidMs / 2)
      return await this.#client.pair;
    const pair = this.#authority.issue({
      commonName: "kip",
      usages: ["client"],
      validMs: identityValidMs,
    });
    this.#client = { pair, expires: now + identityValidMs };
    pair.catch(() => {
      if (this.#client?.pair === pair) this.#client = undefined;
    });
    return await pair;
  }
}

async function readOrCreateAuthority(options: IdentityOptions): Promise<KeyPair> {
  const { client, namespace, secretName } = options;
  const read = async () =>
    readPair(await client.get<Secret>(paths.secrets(namespace, secretName)), options);
  try {
    return await read();
  } catch (error) {
    if (!isNotFound(error)) throw forbidden(options, error);
  }
  const { pair } = await CertificateAuthority.create({
    commonName: "kip cells",
    validMs: caValidMs,
  });
  const secret: Secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secretName, namespace },
    type: "kubernetes.io/tls",
    data: { "tls.crt": toBase64(pair.certificate), "tls.key": toBase64(pair.key) },
  };
  try {
    await createWithNamespace(options, secret);
    return pair;
  } catch (error) {
    if (!isAlreadyExists(error)) throw forbidden(options, error);
    return await read();
  }
}

/** Also creates kip's own namespace if it is missing, so that an administrator's kubeconfig is enough for a first try. */
async function createWithNamespace(
  { client, namespace }: IdentityOptions,
  secret: Secret,
): Promise<void> {
  const create = async () => await client.create(paths.secrets(namespace), secret);
  await create().catch(async (error: unknown) => {
    if (!isNotFound(error)) throw error;
    const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
    await client.create(paths.namespaces(), object).catch((refusal: unknown) => {
      if (!isAlreadyExists(refusal)) throw refusal; // another kip has made it
    });
    await create();
  });
}

/** Adds a remedy if the API server forbids kip to read or create its Secret. Other errors are unchanged. */
function forbidden({ namespace }: IdentityOptions, error: unknown): unknown {
  if (!K8sError.is(error, "K8S_FORBIDDEN")) return error;
  return new ProviderError(
    "IDENTITY_SECRET_FORBIDDEN",
    `Cannot keep the certificate authority of cells in namespace "${namespace}": ${error.message}`,
    {
      cause: error,
      remedy: "Apply deploy/kustomize/base, which makes the namespace and gives kip what it needs",
    },
  );
}

function readPair(secret: Secret, { namespace, secretName }: IdentityOptions): KeyPair {
  const certificate = secret.data?.["tls.crt"];
  const key = secret.data?.["tls.key"];
  if (certificate === undefined || key === undefined) {
    throw new ProviderError(
      "IDENTITY_SECRET_INVALID",
      `Cannot use Secret "${namespace}/${secretName}" as certificate authority: tls.crt or tls.key is missing`,
      {
        remedy:
          "Restore the Secret from a backup; deleting it makes a new authority and loses every running cell",
      },
    );
  }
  return { certificate: fromBase64(certificate), key: fromBase64(key) };
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString("utf8");
}
