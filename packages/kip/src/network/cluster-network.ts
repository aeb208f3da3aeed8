import type { DesiredNetwork } from "@kip/agent-api";
import { every, pause, type Clock, type Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import {
  installedTiers,
  NetworkViews,
  watchClusterNetwork,
  type ClusterNetworkWatch,
  type ViewNode,
  type ViewSubscription,
} from "@kip/cluster-network";
import {
  createEventRecorder,
  isNotFound,
  K8sError,
  paths,
  type ApiClient,
  type KubeObject,
} from "@kip/k8s-client";
import type { KnownNetworkFacts } from "./network-facts.ts";

/** Options of {@link ClusterNetwork}. */
export interface ClusterNetworkOptions {
  readonly client: ApiClient;
  /** Routes Services on the API server's computer, if the driver supports it. */
  readonly driver: Pick<CloudDriver, "routeServices">;
  readonly facts: Pick<KnownNetworkFacts, "get">;
  readonly node: ViewNode;
  /** Addresses of the virtual node. */
  readonly nodeAddresses: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The resources of the API that make up the cluster's network; kip lists and watches all of them. */
const needed = {
  services: paths.services(),
  "endpointslices.discovery.k8s.io": paths.endpointSlices(),
  "networkpolicies.networking.k8s.io": paths.networkPolicies(),
} as const;

/** How often to check again for a missing permission, milliseconds. */
const grantIntervalMs = 60_000;

/** How often to list the Service ranges, milliseconds. Pods that start after a range was added also get it. */
const rangesIntervalMs = 60_000;

/** Delay after a failed list, milliseconds: it doubles each time, up to the interval. */
const rangesRetryMs = 1000;

/** Delay before `routeServices` of the driver is called again after it has ended, milliseconds. */
const leadIntervalMs = 60_000;

/** The cluster's network for all cells. Only kip watches it, once. */
export class ClusterNetwork {
  readonly #options: ClusterNetworkOptions;
  readonly #views: NetworkViews;
  readonly #begun = Promise.withResolvers<void>();
  #watch: ClusterNetworkWatch | undefined;
  #serviceRanges: readonly string[] = [];

  constructor(options: ClusterNetworkOptions) {
    this.#options = options;
    const { client, node, clock, logger, signal } = options;
    const events = createEventRecorder({
      client,
      component: "kubelet",
      host: node.name,
      clock,
      logger,
    });
    this.#views = new NetworkViews({ node, clock, logger, signal, events });
  }

  /** Starts to watch in the background, as soon as kip has permission. Ends with the signal. */
  start(): void {
    const { clock, logger, signal } = this.#options;
    const begun = new AbortController();
    const options = { intervalMs: grantIntervalMs, clock, logger };
    void every(
      {
        ...options,
        what: "watch the cluster's network",
        signal: AbortSignal.any([signal, begun.signal]),
      },
      async () => {
        if (await this.#begin()) begun.abort();
        this.#begun.resolve();
      },
    );
  }

  /** Whether kip may watch the cluster's network. Makes no call: connections to agents depend on it. */
  async isWatched(): Promise<boolean> {
    await this.#begun.promise;
    return this.#watch !== undefined;
  }

  /** The network settings in a pod's document. Undefined while kip has no permission to watch the cluster's network. */
  async settings(): Promise<DesiredNetwork | undefined> {
    await this.#begun.promise;
    if (!this.#watch) return undefined;
    const { facts, nodeAddresses } = this.#options;
    const others = (await facts.get()).nodeAddresses ?? [];
    return { nodeAddresses: [...nodeAddresses, ...others], serviceRanges: this.#serviceRanges };
  }

  /** Resolves when the data for cells is complete. @throws the signal's reason */
  async synced(signal: AbortSignal): Promise<void> {
    await this.#watch?.synced(signal);
  }

  /** Whether the cluster has administrators' policies, which agents of earlier versions cannot apply. */
  hasTiers(): boolean {
    return this.#views.policies.hasTiers;
  }

  /** Keeps a cell up to date from now on, see {@link NetworkViews.subscribe}. */
  subscribe(cell: Parameters<NetworkViews["subscribe"]>[0]): ViewSubscription {
    return this.#views.subscribe(cell);
  }

  async #begin(): Promise<boolean> {
    const { logger } = this.#options;
    const missing = await this.#forbidden();
    if (missing.length > 0) {
      logger.error(
        "Could not watch the cluster's network: pods start without Services and policies",
        {
          missing,
          remedy: "Let kip's role list and watch these resources",
        },
      );
      return false;
    }
    void this.#followServiceRanges(await this.#findServiceRanges());
    this.#watch = watchClusterNetwork({ ...this.#options, views: this.#views });
    void this.#leadHost();
    return true;
  }

  /** Makes the driver route Services on the API server's computer like on a cell, but without policies. Never throws. */
  async #leadHost(): Promise<void> {
    const { driver, clock, logger, signal } = this.#options;
    if (!driver.routeServices) return;
    const what = "route Services on the API server's computer";
    const subscribe = (sums: readonly number[]) =>
      this.subscribe({ podUid: "", namespace: "", sums });
    await every({ intervalMs: leadIntervalMs, what, clock, logger, signal }, async () => {
      await this.synced(signal);
      await driver.routeServices?.({ subscribe }, signal);
    });
  }

  /** The resources that kip has no permission to list. Ignores other failures, because the watches repeat their requests. */
  async #forbidden(): Promise<readonly string[]> {
    const { client, signal } = this.#options;
    const ask = async ([name, path]: readonly [string, string]): Promise<readonly string[]> => {
      try {
        await client.list(path, { query: { limit: 1 }, signal });
        return [];
      } catch (error) {
        return K8sError.is(error, "K8S_FORBIDDEN") ? [name] : [];
      }
    };
    const tiers = await installedTiers(client, signal).catch(() => []);
    const all = [
      ...Object.entries(needed),
      ...tiers.map(({ resource, path }) => [resource, path] as const),
    ];
    return (await Promise.all(all.map(ask))).flat();
  }

  /** @param isFound whether the ranges were just listed */
  async #followServiceRanges(isFound: boolean): Promise<void> {
    const { clock, signal } = this.#options;
    let waitMs = isFound ? rangesIntervalMs : rangesRetryMs;
    while (await pause(waitMs, clock, signal))
      waitMs = (await this.#findServiceRanges())
        ? rangesIntervalMs
        : Math.min(2 * waitMs, rangesIntervalMs);
  }

  /**
   * Reads the Service ranges from the API server. Clusters before Kubernetes 1.33 do not have these objects. They may appear
   * later, when the cluster is upgraded.
   *
   * @returns whether the API server has answered
   */
  async #findServiceRanges(): Promise<boolean> {
    const { client, logger, signal } = this.#options;
    try {
      const { items } = await client.list<KubeObject & { spec?: { cidrs?: string[] } }>(
        paths.serviceCidrs(),
        { signal },
      );
      this.#serviceRanges = items.flatMap(({ spec }) => spec?.cidrs ?? []);
      return true;
    } catch (error) {
      if (isNotFound(error)) return true;
      if (!signal.aborted) logger.warn("Could not list the ranges of Services", { err: error });
      return false;
    }
  }
}
