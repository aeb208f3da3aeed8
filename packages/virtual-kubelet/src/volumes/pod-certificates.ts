import { errorText, pause, SerialQueue, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  namespaced,
  paths,
  type ApiClient,
  type Informer,
  type KubeObject,
} from "@kip/k8s-client";
import type { Pod, VolumeProjection } from "@kip/k8s-types";
import { unresolved } from "../references/reference.ts";
import { isServerSince } from "../server-version.ts";
import { certificatesPem, pemBlocks } from "./pem.ts";
import { createPodKey, type PodKey } from "./pod-key.ts";
import { servedVersion } from "./served-version.ts";

type Projection = NonNullable<VolumeProjection["podCertificate"]> & {
  /** Annotations for the signer, since Kubernetes 1.35. */
  readonly userAnnotations?: Readonly<Record<string, string>>;
};

interface CertificateRequest extends KubeObject {
  readonly status?: {
    readonly certificateChain?: string;
    readonly beginRefreshAt?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
  };
}

/** A key with its certificates. */
export interface PodCredentials {
  /** PEM. */
  readonly key: string;
  /** PEM. */
  readonly chain: string;
  /** When to check again, milliseconds since the epoch. */
  readonly refreshAt: number;
}

/** Provides certificates for one pod. */
export interface PodCertificateSource {
  /**
   * The certificate for a source of a projected volume. The first call requests one. An issued certificate is returned until
   * its successor is issued, even if it cannot be renewed.
   *
   * @param place the source's position in the pod. Each has a separate certificate
   * @throws {VirtualKubeletError} `VK_UNRESOLVED` until the first one is issued, or permanently, with the kubelet's message
   */
  read(place: string, projection: Projection): Promise<PodCredentials>;
}

/** Options of {@link PodCertificates}. */
export interface PodCertificatesOptions {
  readonly client: ApiClient;
  /** See `NodeOptions.nodeClient`. */
  readonly nodeClient?: ApiClient | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with the UID of a pod whose request has changed. */
  readonly onChange: (podUids: Iterable<string>) => void;
}

/** A missing request counts as deleted after this time, milliseconds. The kubelet uses the same, also for the next value. */
const abandonAfterMs = 600_000;
/** Delay before the next request after a failed renewal, milliseconds. */
const retryAfterMs = 300_000;
/** Renewals are spread over this time, so that many pods do not renew at once, milliseconds. */
const jitterMs = 300_000;
const firstListMs = 10_000;
const resource = "podcertificaterequests";
/** The first minor version in which the key is in a PKCS #10 request, which its signers then also expect. */
const firstMinorOfRequests = 36;

/** The requests of the node's pods. */
interface Watched {
  /** Path of the API version. */
  readonly version: string;
  readonly informer: Informer<CertificateRequest>;
}

interface OpenRequest {
  readonly name: string;
  readonly key: PodKey;
  readonly abandonAt: number;
}

interface Entry {
  open?: OpenRequest | undefined;
  issued?: PodCredentials | undefined;
  /** Why no certificate will be issued. */
  refusal?: string | undefined;
}

/**
 * Certificates of pods, requested with `PodCertificateRequest`s as in the kubelet. Keys are only in memory, so after a restart
 * each pod gets a new one.
 *
 * @see https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#pod-certificate-requests
 */
export class PodCertificates {
  readonly #options: PodCertificatesOptions;
  readonly #pods = new Map<string, Map<string, Entry>>();
  /** Creates one key at a time, because each can take seconds. */
  readonly #keys = new SerialQueue();
  #requests: Watched | undefined;

  constructor(options: PodCertificatesOptions) {
    this.#options = options;
  }

  /** The certificates of one pod, until {@link release}. */
  readerFor(pod: Pod): PodCertificateSource {
    const { uid } = pod.metadata;
    return {
      read: async (place, projection) => {
        const entries = this.#pods.get(uid) ?? new Map<string, Entry>();
        this.#pods.set(uid, entries);
        const entry = entries.get(place) ?? {};
        entries.set(place, entry);
        return await this.#read(entry, pod, projection);
      },
    };
  }

  /** Call this when the pod is gone. The API server then deletes its requests, because the pod owns them. */
  release(podUid: string): void {
    this.#pods.delete(podUid);
  }

  async #read(entry: Entry, pod: Pod, projection: Projection): Promise<PodCredentials> {
    try {
      await this.#advance(entry, pod, projection);
    } catch (error) {
      if (!entry.issued) throw error;
      // Other changes of the pod do not wait for a certificate.
      this.#postpone(entry, entry.issued, pod, error);
    }
    if (!entry.issued) throw unresolved("credential bundle is not issued yet");
    // While a renewal is open, its event leads here again.
    return entry.open ? { ...entry.issued, refreshAt: entry.open.abandonAt } : entry.issued;
  }

  /** Checks the open request, and requests a certificate when one is due. */
  async #advance(entry: Entry, pod: Pod, projection: Projection): Promise<void> {
    const now = this.#options.clock.now();
    if (entry.open) await this.#checkRequest(entry, pod);
    if (entry.refusal !== undefined) throw unresolved(entry.refusal);
    const isDue = entry.issued === undefined || entry.issued.refreshAt <= now;
    if (isDue && !entry.open) entry.open = await this.#request(pod, projection);
  }

  /** After a failed renewal: the certificate stays, and the next request is a new one. */
  #postpone(entry: Entry, issued: PodCredentials, { metadata }: Pod, error: unknown): void {
    const { clock, logger } = this.#options;
    const { namespace, name } = metadata;
    logger.warn("Could not renew a certificate of a pod: it keeps the one it has", {
      pod: `${namespace}/${name}`,
      reason: errorText(error),
    });
    entry.open = undefined;
    entry.refusal = undefined;
    entry.issued = { ...issued, refreshAt: clock.now() + retryAfterMs };
  }

  /** Handles the result of the open request. */
  async #checkRequest(entry: Entry, pod: Pod): Promise<void> {
    const { open } = entry;
    if (!open) return;
    const { informer } = await this.#watched(pod);
    const found = informer.get(pod.metadata.namespace, open.name);
    if (!found && this.#options.clock.now() > open.abandonAt) entry.open = undefined;
    for (const { type, reason = "", message = "" } of found?.status?.conditions ?? []) {
      if (type === "Denied" || type === "Failed")
        entry.refusal = `PodCertificateRequest was permanently ${type.toLowerCase()}: reason="${reason}" message="${message}"`;
      if (type !== "Issued") continue;
      const { certificateChain = "", beginRefreshAt = "" } = found?.status ?? {};
      const refreshAt = Date.parse(beginRefreshAt) + Math.random() * jitterMs;
      const chain = certificatesPem(pemBlocks(certificateChain));
      entry.issued = { key: open.key.privatePem, chain, refreshAt };
      entry.open = undefined;
    }
  }

  async #request(pod: Pod, projection: Projection): Promise<OpenRequest> {
    const { client, nodeClient = client, clock, signal } = this.#options;
    const { namespace, name, uid } = pod.metadata;
    const { nodeName = "", serviceAccountName = "default" } = pod.spec;
    const { version } = await this.#watched(pod);
    const [account, node, takesRequests] = await Promise.all([
      client.get<KubeObject>(paths.serviceAccounts(namespace, serviceAccountName)),
      client.get<KubeObject>(paths.nodes(nodeName)),
      isServerSince(client, firstMinorOfRequests, signal),
    ]);
    const { signerName, keyType, maxExpirationSeconds, userAnnotations } = projection;
    const key = await this.#keys.run(async () => await createPodKey(keyType, uid));
    const made = await nodeClient.create<KubeObject>(namespaced(version, resource)(namespace), {
      apiVersion: version.slice("/apis/".length),
      kind: "PodCertificateRequest",
      metadata: {
        generateName: "req-",
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }],
      },
      spec: {
        signerName,
        podName: name,
        podUID: uid,
        serviceAccountName,
        serviceAccountUID: account.metadata.uid,
        nodeName,
        nodeUID: node.metadata.uid,
        maxExpirationSeconds,
        ...(userAnnotations && { unverifiedUserAnnotations: userAnnotations }),
        ...(takesRequests
          ? { stubPKCS10Request: key.request }
          : { pkixPublicKey: key.publicKey, proofOfPossession: key.proof }),
      },
    });
    return { name: made.metadata.name, key, abandonAt: clock.now() + abandonAfterMs };
  }

  /** The requests of the node's pods, watched from the first pod that has one. */
  async #watched({ spec: { nodeName = "" } }: Pod): Promise<Watched> {
    const { client, nodeClient = client, clock, logger, signal, onChange } = this.#options;
    const version = this.#requests?.version ?? (await servedVersion(client, resource));
    if (version === undefined) throw unresolved("the API server has no PodCertificateRequests");
    this.#requests ??= {
      version,
      informer: createInformer<CertificateRequest>({
        client: nodeClient,
        path: namespaced(version, resource)(),
        query: { fieldSelector: `spec.nodeName=${nodeName}` },
        onEvent: ({ object }) => onChange(this.#podsOf(object)),
        clock,
        logger,
        signal,
      }),
    };
    const { informer } = this.#requests;
    if (!informer.isSynced)
      await Promise.race([informer.synced, pause(firstListMs, clock, signal)]);
    return this.#requests;
  }

  #podsOf({ metadata: { ownerReferences = [] } }: CertificateRequest): readonly string[] {
    return ownerReferences.map(({ uid }) => uid).filter((uid) => this.#pods.has(uid));
  }
}
