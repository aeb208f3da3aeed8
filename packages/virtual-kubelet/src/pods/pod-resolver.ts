import { defined, errorText, withTimeout, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  paths,
  type ApiClient,
  type Informer,
  type RecordedEvent,
} from "@kip/k8s-client";
import type { Pod, Service } from "@kip/k8s-types";
import type { ResolvedPod } from "../pod-provider.ts";
import { hasResourceReference } from "../environment/resource-reference.ts";
import { unresolved } from "../references/reference.ts";
import { ReferenceStore } from "../references/reference-store.ts";
import { PodCertificates } from "../volumes/pod-certificates.ts";
import { TrustBundles } from "../volumes/trust-bundles.ts";
import type { TokenSource } from "../volumes/token-source.ts";
import { resolvePod } from "./resolve-pod.ts";

/** Options of {@link PodResolver}. */
export interface PodResolverOptions {
  readonly client: ApiClient;
  /** See `NodeOptions.nodeClient`. */
  readonly nodeClient?: ApiClient | undefined;
  /** What the machine of a pod offers. */
  readonly allocatable: (pod: Pod) => Promise<Readonly<Record<string, string>>>;
  /** Whether environment variables are looked up. */
  readonly resolveEnv: boolean;
  /** See `PodProvider.readsEnvFiles`. */
  readonly readsEnvFiles: boolean;
  /** Called with the UIDs of the pods that refer to what has changed. */
  readonly onChange: (uids: Iterable<string>) => void;
  /** Records an event of the pod, for the container that the field path names. */
  readonly recordEvent: (pod: Pod, event: RecordedEvent, fieldPath?: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** How long an attempt to start a pod waits for the first list of services, milliseconds. */
const servicesTimeoutMs = 5000;

/** Looks up what the pods of a node refer to, and watches it. */
export class PodResolver {
  readonly #options: PodResolverOptions;
  readonly #references: ReferenceStore;
  readonly #services: Informer<Service>;
  readonly #trustBundles: TrustBundles;
  readonly #certificates: PodCertificates;

  /** Starts watching services at once; ConfigMaps and Secrets when a pod refers to them. */
  constructor(options: PodResolverOptions) {
    this.#options = options;
    const { client, nodeClient, onChange, clock, logger, signal } = options;
    this.#references = new ReferenceStore({
      client: nodeClient ?? client,
      watches: nodeClient ? "objects" : "namespaces",
      clock,
      logger,
      onChange,
    });
    this.#trustBundles = new TrustBundles(options);
    this.#certificates = new PodCertificates(options);
    this.#services = createInformer<Service>({
      client,
      path: paths.services(),
      transform: prunedService,
      clock,
      logger,
      signal,
    });
  }

  /**
   * Looks up everything that a pod refers to.
   *
   * @param previous what the provider accepted last
   * @throws {VirtualKubeletError} `VK_UNRESOLVED`, as {@link resolvePod} does; also while no services are known yet
   */
  async resolve(
    pod: Pod,
    tokens: TokenSource,
    previous: ResolvedPod | undefined,
  ): Promise<ResolvedPod> {
    await this.#untilServicesAreKnown();
    const { namespace, uid } = pod.metadata;
    const references = this.#references.readerFor(namespace, uid);
    const resolved = await resolvePod(pod, {
      references,
      tokens,
      trustAnchors: this.#trustBundles.readerFor(uid),
      certificates: this.#certificates.readerFor(pod),
      services: this.#services.list(),
      allocatable: hasResourceReference(pod) ? await this.#options.allocatable(pod) : {},
      resolveEnv: this.#options.resolveEnv,
      readsFiles: this.#options.readsEnvFiles,
      previous,
      notify: ({ fieldPath, ...event }) => this.#options.recordEvent(pod, event, fieldPath),
    });
    this.#references.release(uid, references.used);
    return resolved;
  }

  /** The pod is gone: what only it refers to is no longer watched. */
  release(uid: string): void {
    this.#references.release(uid);
    this.#trustBundles.release(uid);
    this.#certificates.release(uid);
  }

  stop(): void {
    this.#references.stop();
  }

  /** The first pods of a process must not start without their service variables. */
  async #untilServicesAreKnown(): Promise<void> {
    if (this.#services.isSynced) return;
    const { clock, signal } = this.#options;
    const error = (): Error => {
      const cause = this.#services.error ? `: ${errorText(this.#services.error)}` : "";
      return unresolved(`services have not been synced yet${cause}`);
    };
    const options = { limitMs: servicesTimeoutMs, clock, signal, error };
    await withTimeout(() => this.#services.synced, options);
  }
}

/** The parts of a service that environment variables need: a cluster may have thousands of services. */
function prunedService({ metadata, spec }: Service): Service {
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    metadata: { namespace, name, uid, resourceVersion },
    spec: defined({
      clusterIP: spec?.clusterIP,
      ports: (spec?.ports ?? []).map(({ name: portName, port, protocol }) =>
        defined({ port, name: portName, protocol }),
      ),
    }),
  };
}
