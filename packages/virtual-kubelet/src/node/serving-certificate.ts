import { X509Certificate } from "node:crypto";
import { backoffDelay, defined, pause, withTimeout, type Clock, type Logger } from "@kip/base";
import { createInformer, paths, type ApiClient, type KubeObject } from "@kip/k8s-client";
import type { CertificateSigningRequest } from "@kip/k8s-types";
import type { KeyPair } from "@kip/pki";
import { VirtualKubeletError } from "../errors.ts";

/** Options of {@link keepServingCertificate}. */
export interface ServingCertificateOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly ipAddresses: readonly string[];
  /** The certificate's signer. @default `kubernetes.io/kubelet-serving` */
  readonly signerName?: string | undefined;
  /** Called with each issued certificate. */
  readonly onCertificate: (pair: KeyPair) => void;
  /** Requested validity, seconds, 600 or more. @default the signer's own */
  readonly expirationSeconds?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** How long a request may stay undecided before a new one is made, milliseconds. The kubelet uses the same. */
const decisionTimeoutMs = 15 * 60_000;
const backoff = { initialMs: 5_000, maxMs: 15 * 60_000 };

/** Share of its lifetime after which a certificate is replaced. It is random, so that many nodes do not renew at once. */
const renewal = { least: 0.7, spread: 0.2 };

/**
 * Requests certificates for the node's kubelet API from the cluster and renews them in time. Resolves when the signal aborts.
 * Another program or an administrator must approve the requests, because clusters have no built-in approver for this signer.
 *
 * @see https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
 */
export async function keepServingCertificate(options: ServingCertificateOptions): Promise<void> {
  const { onCertificate, clock, logger, signal } = options;
  for (let failures = 0; !signal.aborted;) {
    let pauseMs: number;
    try {
      const pair = await request(options);
      onCertificate(pair);
      const lifeMs = new X509Certificate(pair.certificate).validToDate.getTime() - clock.now();
      pauseMs = Math.max(
        backoff.initialMs,
        lifeMs * (renewal.least + renewal.spread * Math.random()),
      );
      failures = 0;
      logger.info("The cluster issued the kubelet API's certificate", { renewInMs: pauseMs });
    } catch (error) {
      if (signal.aborted) return;
      pauseMs = backoffDelay(failures++, backoff, error);
      logger.warn("Could not renew the kubelet API's certificate", {
        delayMs: pauseMs,
        err: error,
      });
    }
    await pause(pauseMs, clock, signal);
  }
}

async function request(options: ServingCertificateOptions): Promise<KeyPair> {
  const { client, nodeName, ipAddresses, expirationSeconds, signal } = options;
  const { signerName = "kubernetes.io/kubelet-serving" } = options;
  // Loaded on demand: it takes 11 MB, and most nodes are given their certificate.
  const { createSigningRequest } = await import("@kip/pki");
  const { request: pem, key } = await createSigningRequest({
    commonName: `system:node:${nodeName}`,
    organizations: ["system:nodes"],
    dnsNames: [nodeName],
    ipAddresses,
  });
  const made = await client.create<KubeObject>(
    paths.certificateSigningRequests(),
    {
      apiVersion: "certificates.k8s.io/v1",
      kind: "CertificateSigningRequest",
      metadata: { generateName: "csr-" },
      spec: defined({
        request: Buffer.from(pem).toString("base64"),
        signerName,
        usages: ["digital signature", "server auth"],
        expirationSeconds,
      }),
    },
    { signal },
  );
  const { name } = made.metadata;
  options.logger.info("Asked the cluster for the kubelet API's certificate", { request: name });
  const certificate = await decision(name, options);
  return { certificate, key };
}

/** Waits until a request is signed. */
async function decision(name: string, options: ServingCertificateOptions): Promise<string> {
  const { client, clock, logger, signal } = options;
  const done = new AbortController();
  const ended = AbortSignal.any([signal, done.signal]);
  const decided = Promise.withResolvers<string>();
  createInformer<CertificateSigningRequest>({
    client,
    path: paths.certificateSigningRequests(),
    query: { fieldSelector: `metadata.name=${name}` },
    onEvent: ({ type, object: { status } }) => {
      const refusal = status?.conditions?.find((each) => each.type !== "Approved");
      if (status?.certificate !== undefined)
        decided.resolve(Buffer.from(status.certificate, "base64").toString("utf8"));
      else if (type === "deleted") decided.reject(refused(name, "it was deleted"));
      else if (refusal)
        decided.reject(
          refused(name, `${refusal.type}: ${refusal.message ?? refusal.reason ?? ""}`),
        );
    },
    clock,
    logger,
    signal: ended,
  });
  const error = (): Error =>
    refused(name, `it was not approved within ${decisionTimeoutMs / 60_000} minutes`);
  try {
    return await withTimeout(() => decided.promise, {
      limitMs: decisionTimeoutMs,
      clock,
      signal,
      error,
    });
  } finally {
    done.abort();
    decided.promise.catch(() => {}); // a decision after the time limit
  }
}

function refused(name: string, reason: string): VirtualKubeletError {
  return new VirtualKubeletError(
    "VK_CERTIFICATE_REFUSED",
    `Cannot have request ${name} signed: ${reason}`,
    {
      remedy: `Approve the node's next request with kubectl certificate approve`,
    },
  );
}
