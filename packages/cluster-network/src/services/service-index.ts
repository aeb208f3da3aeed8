import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import type { ServiceView } from "@kip/network-view";
import { AddressClaims, claimsOf } from "./address-claims.ts";
import { NamespaceBudget, namespaceOf } from "./namespace-budget.ts";
import { costOf } from "./service-cost.ts";
import { isProxied, serviceViewOf } from "./service-view-of.ts";
import type { ViewNode } from "./usable-endpoints.ts";

/** Label of an EndpointSlice that names its Service. */
export const serviceNameLabel = "kubernetes.io/service-name";

/** Options of {@link ServiceIndex}. */
export interface ServiceIndexOptions {
  /** Is given a Service whose view cannot be made, and why: it is left out. @default it is left out silently */
  readonly onFailure?: ((key: string, error: unknown) => void) | undefined;
  /** Is called when Services of a namespace get no room any longer. @default they are left out silently */
  readonly onRefused?: ((refusal: Refusal) => void) | undefined;
}

/** Services that there is no room for. */
export interface Refusal {
  readonly namespace: string;
  /** How many of the namespace have no rules now. */
  readonly count: number;
  /** The name of one that has lost its rules, or got none. */
  readonly example: string;
}

/** Services and slices as they come, and the views of those that have changed. */
export class ServiceIndex {
  /** Which Services have no rules, as those of their namespace take too much. */
  readonly budget = new NamespaceBudget();
  readonly #node: ViewNode;
  readonly #options: ServiceIndexOptions;
  readonly #services = new Map<string, StoredService>();
  readonly #byNamespace = new Map<string, Set<string>>();
  /** By Service, then by the slice's name. */
  readonly #slices = new Map<string, Map<string, EndpointSlice>>();
  readonly #claims = new AddressClaims();
  readonly #changed = new Set<string>();

  constructor(node: ViewNode, options: ServiceIndexOptions = {}) {
    this.#node = node;
    this.#options = options;
  }

  /** Whether {@link ServiceIndex.takeChanges} would give something. */
  get isChanged(): boolean {
    return this.#changed.size > 0;
  }

  /** Takes a Service; undefined if it is gone. */
  setService(key: string, service: StoredService | undefined): void {
    const namespace = namespaceOf(key);
    const keys = this.#byNamespace.get(namespace) ?? new Set<string>();
    if (service) {
      this.#services.set(key, service);
      keys.add(key);
    } else {
      this.#services.delete(key);
      keys.delete(key);
    }
    if (keys.size > 0) this.#byNamespace.set(namespace, keys);
    else this.#byNamespace.delete(namespace);
    this.#changed.add(key);
  }

  /** Takes a slice; one without the label of a Service is ignored. */
  setSlice(slice: EndpointSlice, isGone = false): void {
    const service = slice.metadata.labels?.[serviceNameLabel];
    if (service === undefined) return;
    const key = `${slice.metadata.namespace}/${service}`;
    const slices = this.#slices.get(key) ?? new Map<string, EndpointSlice>();
    if (isGone) slices.delete(slice.metadata.name);
    else slices.set(slice.metadata.name, slice);
    if (slices.size > 0) this.#slices.set(key, slices);
    else this.#slices.delete(key);
    this.#changed.add(key);
  }

  /** A Service as it is now; undefined if there is none, nodes do not lead its packets, or there is no room for its rules. */
  view(key: string): ServiceView | undefined {
    const view = this.budget.isRefused(key) ? undefined : this.#wanted(key);
    return view && this.#claims.withoutLost(key, view);
  }

  /** The Service itself. */
  service(key: string): StoredService | undefined {
    return this.#services.get(key);
  }

  /** Slices of a Service. */
  slices(key: string): readonly EndpointSlice[] {
    return [...(this.#slices.get(key)?.values() ?? [])];
  }

  /** Names of all Services. */
  keys(): Iterable<string> {
    return this.#services.keys();
  }

  /** Names of the Services of a namespace. */
  keysOf(namespace: string): readonly string[] {
    return [...(this.#byNamespace.get(namespace) ?? [])];
  }

  /**
   * The Services that may have changed since the last call, as they are now.
   *
   * @param mostOfNamespace how many of one namespace are given at most; the rest is given by the next calls. Services that
   * are gone are given in any case, as others may have their addresses already, and so are those that there is no room for any longer
   */
  takeChanges(
    mostOfNamespace = Number.POSITIVE_INFINITY,
  ): ReadonlyMap<string, ServiceView | undefined> {
    const wanted = this.#takeWanted(mostOfNamespace);
    const affected = new Set<string>();
    for (const [key, view] of wanted) {
      const claims = view ? claimsOf(key, this.#created(key), view) : [];
      for (const other of this.#claims.replace(key, claims)) affected.add(other);
    }
    const views = new Map<string, ServiceView | undefined>();
    for (const [key, view] of wanted) views.set(key, view && this.#claims.withoutLost(key, view));
    for (const key of affected) if (!views.has(key)) views.set(key, this.view(key));
    return views;
  }

  /** Changed Services with all that they ask for, of those that there is room for. */
  #takeWanted(mostOfNamespace: number): ReadonlyMap<string, ServiceView | undefined> {
    const keys = this.#takeKeys(mostOfNamespace);
    const made = new Map<string, ServiceView | undefined>();
    for (const key of keys) {
      const view = this.#tryWanted(key);
      this.budget.set(key, this.#created(key), view && costOf(key, view));
      // Views of more than a namespace may have would take the memory that they must not take.
      if (!view || !this.budget.isExceeded(namespaceOf(key))) made.set(key, view);
    }
    const { refused, admitted } = this.budget.settle();
    const wanted = new Map<string, ServiceView | undefined>();
    for (const key of keys) {
      const view =
        made.has(key) || this.budget.isRefused(key) ? made.get(key) : this.#tryWanted(key);
      wanted.set(key, this.budget.isRefused(key) ? undefined : view);
    }
    for (const key of refused) wanted.set(key, undefined);
    for (const key of admitted) if (!wanted.has(key)) this.#changed.add(key);
    this.#reportRefused(refused);
    return wanted;
  }

  #reportRefused(keys: readonly string[]): void {
    for (const [namespace, example] of new Map(keys.map((key) => [namespaceOf(key), key]))) {
      const count = this.budget.refusedCount(namespace);
      this.#options.onRefused?.({ namespace, count, example });
    }
  }

  #created(key: string): string {
    return this.#services.get(key)?.metadata.creationTimestamp ?? "";
  }

  #takeKeys(mostOfNamespace: number): readonly string[] {
    const counts = new Map<string, number>();
    const keys = [...this.#changed].filter((key) => {
      const service = this.#services.get(key);
      if (!service || !isProxied(service)) return true;
      const count = (counts.get(namespaceOf(key)) ?? 0) + 1;
      counts.set(namespaceOf(key), count);
      return count <= mostOfNamespace;
    });
    for (const key of keys) this.#changed.delete(key);
    return keys;
  }

  /** Any user of the cluster may have written what cannot be read: it must not keep others' changes back. */
  #tryWanted(key: string): ServiceView | undefined {
    try {
      return this.#wanted(key);
    } catch (error) {
      this.#options.onFailure?.(key, error);
      return undefined;
    }
  }

  #wanted(key: string): ServiceView | undefined {
    const service = this.#services.get(key);
    if (!service || !isProxied(service)) return undefined;
    return serviceViewOf(service, this.#slices.get(key)?.values() ?? [], this.#node);
  }
}
