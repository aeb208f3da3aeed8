import { defined, errorText, pause, type Clock, type Logger } from "@kip/base";
import {
  clusterWide,
  createInformer,
  matchesLabels,
  type ApiClient,
  type Informer,
  type KubeObject,
} from "@kip/k8s-client";
import type { VolumeProjection } from "@kip/k8s-types";
import { absent, copyBytes, unresolved } from "../references/reference.ts";
import { certificatesPem, pemBlocks } from "./pem.ts";
import { servedVersion } from "./served-version.ts";

type Projection = NonNullable<VolumeProjection["clusterTrustBundle"]>;

interface TrustBundle extends KubeObject {
  readonly spec: { readonly signerName?: string; readonly trustBundle: string };
}

/** Provides trust anchors for one pod. */
export interface TrustAnchors {
  /**
   * The certificates for a source of a projected volume, without duplicates, as PEM. Pods share the bytes, so do not change
   * them.
   *
   * @throws {VirtualKubeletError} `VK_UNRESOLVED` with the kubelet's message
   */
  read(projection: Projection): Promise<Uint8Array>;
}

/** Options of {@link TrustBundles}. */
export interface TrustBundlesOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with the UIDs of pods that use trust bundles when a bundle has changed. */
  readonly onChange: (podUids: Iterable<string>) => void;
}

/** The result of one selection of bundles, shared by all pods with that selection. */
interface Selection {
  readonly data: Buffer;
  /** UIDs of the pods. */
  readonly pods: Set<string>;
  /** Whether a bundle has changed since then. */
  isStale: boolean;
}

const resource = "clustertrustbundles";
/** How long the first pod waits for the first list, as in the kubelet, milliseconds. */
const firstListMs = 10_000;

/**
 * The cluster's trust bundles, watched from the first pod that uses one.
 *
 * @see https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#cluster-trust-bundles
 */
export class TrustBundles {
  readonly #options: TrustBundlesOptions;
  readonly #pods = new Set<string>();
  readonly #selections = new Map<string, Selection>();
  #informer: Informer<TrustBundle> | undefined;

  constructor(options: TrustBundlesOptions) {
    this.#options = options;
  }

  /** A reader for one pod. Changes are reported to the pod until {@link release}. */
  readerFor(podUid: string): TrustAnchors {
    return {
      read: async (projection) => {
        this.#pods.add(podUid);
        const informer = await this.#synced();
        return this.#read(informer.list(), projection, podUid);
      },
    };
  }

  release(podUid: string): void {
    this.#pods.delete(podUid);
    for (const [key, { pods }] of this.#selections)
      if (pods.delete(podUid) && pods.size === 0) this.#selections.delete(key);
  }

  #read(bundles: readonly TrustBundle[], projection: Projection, podUid: string): Uint8Array {
    const { name, signerName, labelSelector } = projection;
    const key = JSON.stringify([name, signerName, labelSelector]);
    const known = this.#selections.get(key);
    if (known && !known.isStale) {
      if (this.#pods.has(podUid)) known.pods.add(podUid);
      return known.data;
    }
    const chosen = select(bundles, projection);
    if (chosen.length === 0) {
      this.#selections.delete(key);
      if (projection.optional !== true) throw missing(projection);
      return new Uint8Array();
    }
    const blocks = chosen.flatMap(({ spec }) => pemBlocks(spec.trustBundle));
    const made = copyBytes(certificatesPem([...new Set(blocks)].sort()));
    // A different bundle has changed, so pods keep what they have.
    const data = known && made.equals(known.data) ? known.data : made;
    const pods = known?.pods ?? new Set();
    if (this.#pods.has(podUid)) pods.add(podUid);
    if (pods.size > 0) this.#selections.set(key, { data, pods, isStale: false });
    return data;
  }

  async #synced(): Promise<Informer<TrustBundle>> {
    const informer = (this.#informer ??= await this.#watch());
    const { clock, signal } = this.#options;
    if (!informer.isSynced)
      await Promise.race([informer.synced, pause(firstListMs, clock, signal)]);
    if (!informer.isSynced) {
      const why = informer.error ? `: ${errorText(informer.error)}` : "";
      throw unresolved(`ClusterTrustBundle informer has not yet synced${why}`);
    }
    return informer;
  }

  async #watch(): Promise<Informer<TrustBundle>> {
    const { client, clock, logger, signal, onChange } = this.#options;
    const version = await servedVersion(client, resource);
    if (version === undefined)
      throw unresolved(
        "ClusterTrustBundle projection is not supported: the API server has no ClusterTrustBundles",
      );
    // Another pod may have been faster.
    return (this.#informer ??= createInformer<TrustBundle>({
      client,
      path: clusterWide(version, resource)(),
      transform: ({ metadata: { name, uid, resourceVersion, labels }, spec }) => ({
        metadata: defined({ name, uid, resourceVersion, labels }),
        spec,
      }),
      onEvent: () => {
        for (const selection of this.#selections.values()) selection.isStale = true;
        if (this.#informer?.isSynced === true) onChange([...this.#pods]);
      },
      clock,
      logger,
      signal,
    }));
  }
}

/** Selects by name, or by signer. Without a selector nothing matches. With an empty one everything does. */
function select(
  bundles: readonly TrustBundle[],
  { name, signerName, labelSelector }: Projection,
): readonly TrustBundle[] {
  if (name !== undefined) return bundles.filter(({ metadata }) => metadata.name === name);
  if (labelSelector === undefined) return [];
  return bundles.filter(
    ({ metadata: { labels = {} }, spec }) =>
      spec.signerName === signerName && matchesLabels(labelSelector, labels),
  );
}

function missing({ name }: Projection): Error {
  return absent(
    name === undefined
      ? "combination of signerName and labelSelector matched zero ClusterTrustBundles"
      : `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "${name}" not found`,
  );
}
