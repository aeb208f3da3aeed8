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
  /** The resources of a pod's machine. */
  readonly allocatable: (pod: Pod) => Promise<Readonly<Record<string, string>>>;
  /** Whether to resolve environment variables. */
  readonly resolveEnv: boolean;
  /** See `PodProvider.readsEnvFiles`. */
  readonly readsEnvFiles: boolean;
  /** See `PodProvider.holdsBackContainers`. */
  readonly holdsBackContainers: boolean;
  /** Called with the UIDs of pods that refer to a changed object. */
  readonly onChange: (uids: Iterable<string>) => void;
  /** Records an event for the pod, or for the container at the field path. */
  readonly recordEvent: (pod: Pod, event: RecordedEvent, fieldPath?: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** How long a pod's start waits for the first list of services, milliseconds. */
const servicesTimeoutMs = 5000;
/** How often to look for what a container of a pod that has started waits for, milliseconds. */
const lookAgainMs = 60_000;

/** Resolves the references of a node's pods and watches the objects. */
export class PodResolver {
  readonly #options: PodResolverOptions;
  readonly #references: ReferenceStore;
  readonly #services: Informer<Service>;
  readonly #trustBundles: TrustBundles;
  readonly #certificates: PodCertificates;

  /** Starts watching services at once, and ConfigMaps and Secrets when a pod refers to them. */
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
   * Resolves all references of a pod.
   *
   * @param previous the content that the provider last accepted
   * @throws {VirtualKubeletError} `VK_UNRESOLVED` as in {@link resolvePod}; also while services are unknown
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
      holdsBackContainers: this.#options.holdsBackContainers,
      previous,
      notify: ({ fieldPath, ...event }) => this.#options.recordEvent(pod, event, fieldPath),
    });
    this.#references.release(uid, references.used);
    if (!resolved.missingEnv && !resolved.missingFiles) return resolved;
    // Without permission to watch the missing objects, only another attempt finds them.
    const lookAgainAt = this.#options.clock.now() + lookAgainMs;
    return { ...resolved, refreshAt: Math.min(resolved.refreshAt ?? lookAgainAt, lookAgainAt) };
  }

  /** Call this when the pod is gone. Objects that only this pod refers to are no longer watched. */
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

/** The parts of a service for environment variables. A cluster may have thousands of services. */
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
