import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { limits, type ServiceView } from "@kip/network-view";
import { NamespaceBudget, namespaceOf, type Cost } from "../budget/namespace-budget.ts";
import { AddressClaims, claimsOf, noClaims } from "./address-claims.ts";
import { ChangeOrigins } from "./change-origins.ts";
import { allChanges, ChangeQueue, type ChangeShare } from "./change-queue.ts";
import { LosingServices } from "./losing-services.ts";
import { costOf, maxServicesCost } from "./service-cost.ts";
import { isProxied, serviceViewOf } from "./service-view-of.ts";
import { maxEndpointsRead, type ViewNode } from "./usable-endpoints.ts";

/** Label of an EndpointSlice that names its Service. */
export const serviceNameLabel = "kubernetes.io/service-name";

/** Number of endpoints, counted for each port, that take as long to compute as a small Service (weight 1). The largest Service has a weight of 145. */
const endpointsPerUnit = 250;

/** The weight of a Service with {@link maxEndpointsRead} endpoints. */
const maxWeight = maxEndpointsRead / endpointsPerUnit;

/** Number of external addresses, counted for each port, with a weight of 1. Each must be looked up among those of other Services. */
const claimsPerUnit = 64;

/** Number of source ranges with a weight of 1. A Service may have thousands. */
const rangesPerUnit = 32;

/** Number of addresses with a weight of 1 that a Service without rules releases. */
const releasesPerUnit = 256;

/** Options of {@link ServiceIndex}. */
export interface ServiceIndexOptions {
  /** Called for a Service whose view cannot be computed. The Service is left out. @default it is left out silently */
  readonly onFailure?: ((key: string, error: unknown) => void) | undefined;
  /** Called when Services of a namespace start to be refused. @default they are left out silently */
  readonly onRefused?: ((refusal: Refusal) => void) | undefined;
  /** The budget for the Services of one namespace. @default maxServicesCost */
  readonly most?: Cost | undefined;
}

/** Services that exceed the budget of their namespace. */
export interface Refusal {
  readonly namespace: string;
  /** How many Services of the namespace have no rules now. */
  readonly count: number;
  /** The name of a Service that has lost its rules, or got none. */
  readonly example: string;
}

/** A changed Service. */
interface ServiceChange {
  /** Its view with all addresses that it claims. Undefined if it has no rules. */
  readonly view: ServiceView | undefined;
  /** The number of the change, see {@link ChangeOrigins}. */
  readonly number: number;
}

/** Stores Services and EndpointSlices, and computes the views of Services that have changed. */
export class ServiceIndex {
  /** Decides which Services have no rules, because those of their namespace are too large. */
  readonly budget: NamespaceBudget;
  #node: ViewNode;
  readonly #options: ServiceIndexOptions;
  readonly #services = new Map<string, StoredService>();
  readonly #byNamespace = new Map<string, Set<string>>();
  /** By Service, then by the slice's name. */
  readonly #slices = new Map<string, Map<string, EndpointSlice>>();
  /** The Service of each slice, by the slice's namespace and name. */
  readonly #ownerOf = new Map<string, string>();
  readonly #claims = new AddressClaims((key) => this.#publishedViews.has(key));
  readonly #origins = new ChangeOrigins();
  readonly #changed = new ChangeQueue();
  /** Services that no longer have rules, and whose addresses are not released yet. */
  readonly #leaving = new ChangeQueue();
  /** Services that lose addresses to others. They keep them until {@link ServiceIndex.takeChanges} has returned their view without these. */
  readonly #losing = new LosingServices();
  /** The last returned view of each Service with external addresses, because it may lose these. */
  readonly #publishedViews = new Map<string, ServiceView>();

  constructor(node: ViewNode, options: ServiceIndexOptions = {}) {
    this.#node = node;
    this.#options = options;
    this.budget = new NamespaceBudget(options.most ?? maxServicesCost);
  }

  /** Whether {@link ServiceIndex.takeChanges} has something to return. */
  get isChanged(): boolean {
    return this.changedCount > 0;
  }

  /** How many Services {@link ServiceIndex.takeChanges} must process. */
  get changedCount(): number {
    return this.#changed.size + this.#leaving.size + this.#losing.size;
  }

  /** The number of the latest change, for {@link ServiceIndex.isBehind}. */
  get lastChange(): number {
    return this.#origins.last;
  }

  /** Whether {@link ServiceIndex.takeChanges} has not returned all changes up to this number, and their consequences for other Services. */
  isBehind(change: number): boolean {
    return this.#origins.isWaiting(change);
  }

  /** Sets the zone of the node. Any Service with hints may then use other endpoints. @returns whether the zone has changed */
  setZone(zone: string | undefined): boolean {
    if (zone === this.#node.zone) return false;
    this.#node = { ...this.#node, zone };
    for (const key of this.#slices.keys()) this.#noteChange(key);
    return true;
  }

  /** Sets a Service. Undefined if it was deleted. */
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
    this.#noteChange(key);
  }

  /** Sets or deletes an EndpointSlice. Its label names its Service. If the label changes, the slice moves to another Service, or to none. */
  setSlice(slice: EndpointSlice, isGone = false): void {
    const { namespace, name, labels } = slice.metadata;
    const label = isGone ? undefined : labels?.[serviceNameLabel];
    const owner = label === undefined ? undefined : `${namespace}/${label}`;
    const id = `${namespace}/${name}`;
    const before = this.#ownerOf.get(id);
    if (before !== undefined) {
      const slices = this.#slices.get(before);
      if (owner !== before) slices?.delete(name);
      if (slices?.size === 0) this.#slices.delete(before);
      this.#noteChange(before);
    }
    if (owner === undefined) {
      this.#ownerOf.delete(id);
      return;
    }
    const slices = this.#slices.get(owner) ?? new Map<string, EndpointSlice>();
    this.#slices.set(owner, slices.set(name, slice));
    this.#ownerOf.set(id, owner);
    this.#noteChange(owner);
  }

  /** The current view of a Service. Undefined if it does not exist, has no rules on nodes, or is refused by the budget. */
  view(key: string): ServiceView | undefined {
    const view = this.budget.isRefused(key) ? undefined : this.#computeView(key);
    return view && this.#claims.withoutLostAddresses(key, view);
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
   * The current views of Services that may have changed since the last call.
   *
   * Deleted Services are always returned, because others may already have their addresses. So are Services that no longer fit the budget.
   * If a Service loses an address to another one, its last view is returned without the address. The other Service gets the address in a
   * later call. So no two Services have an address at the same time.
   *
   * @param share limits the returned Services. Each 250 endpoints of a Service count as one more. The limits apply separately to changed
   * Services, to Services that lose an address, and to addresses that are released. The next calls return the rest
   */
  takeChanges(share: ChangeShare = allChanges): ReadonlyMap<string, ServiceView | undefined> {
    const wanted = this.#takeChangedServices(share);
    const got = new Map<string, number>();
    for (const [key, change] of wanted) this.#claim(key, change, got);
    this.#releaseLeaving(share, got);
    const losing = this.#losing.take(share, (key) => this.#losingWeight(key));
    for (const key of losing) this.#release(key, got);
    for (const [key, { view }] of wanted)
      if (view && this.#losing.has(key)) this.#release(key, got);
    for (const [key, number] of got) if (!wanted.has(key)) this.#noteChange(key, number);
    const views = new Map<string, ServiceView | undefined>();
    for (const [key, { view }] of wanted) this.#publish(views, key, view);
    // They are not computed again, which may take long: one Service may take addresses of hundreds of large ones.
    for (const key of losing) {
      const given = this.#publishedViews.get(key);
      if (given && !wanted.has(key)) this.#publish(views, key, given);
    }
    return views;
  }

  /** Records the claims of a changed Service. */
  #claim(key: string, { view, number }: ServiceChange, got: Map<string, number>): void {
    this.#leaving.delete(key);
    const next = this.#origins.causedBy(Math.min(number, this.#origins.take("leaving", key)));
    if (!view) {
      if (this.#claims.countOf(key) === 0) return;
      this.#leaving.add(key);
      this.#origins.note("leaving", key, next);
      return;
    }
    const moves = this.#claims.replace(key, claimsOf(key, this.#created(key), view));
    for (const other of moves.losing) {
      this.#losing.add(other, key);
      this.#origins.note("losing", other, next);
    }
    noteAll(got, moves.got, next);
  }

  /** Releases the addresses of Services that no longer have rules, so that others get them. */
  #releaseLeaving(share: ChangeShare, got: Map<string, number>): void {
    for (const key of this.#leaving.take(share, (each) => this.#claimsWeight(each))) {
      const next = this.#origins.causedBy(this.#origins.take("leaving", key));
      noteAll(got, this.#claims.replace(key, noClaims).got, next);
    }
  }

  /** Releases the addresses that a Service has lost, so that others get them. */
  #release(key: string, got: Map<string, number>): void {
    this.#losing.delete(key);
    const next = this.#origins.causedBy(this.#origins.take("losing", key));
    noteAll(got, this.#claims.release(key), next);
  }

  #publish(
    views: Map<string, ServiceView | undefined>,
    key: string,
    wanted: ServiceView | undefined,
  ): void {
    const view = wanted && this.#claims.withoutLostAddresses(key, wanted);
    views.set(key, view);
    if (view?.externalIps ?? view?.loadBalancerIps) this.#publishedViews.set(key, view);
    else this.#publishedViews.delete(key);
  }

  /** Changed Services, with all addresses that they claim. Without a view if they do not fit the budget. */
  #takeChangedServices(share: ChangeShare): ReadonlyMap<string, ServiceChange> {
    const numbers = new Map<string, number>();
    for (const key of this.#changed.take(share, (each) => this.#weightOf(each)))
      numbers.set(key, this.#origins.take("changed", key));
    const made = new Map<string, ServiceView | undefined>();
    const oldest = new Map<string, number>();
    for (const [key, number] of numbers) {
      const view = this.#tryComputeView(key);
      const namespace = namespaceOf(key);
      this.budget.set(key, this.#created(key), view && costOf(key, view));
      // If the budget is exceeded, the views may take too much memory in total. Then they are computed again below.
      if (!view || !this.budget.isExceeded(namespace)) made.set(key, view);
      noteAll(oldest, [namespace], number);
    }
    const { refused, admitted } = this.budget.settle();
    const wanted = new Map<string, ServiceChange>();
    for (const [key, number] of numbers) {
      const isRefused = this.budget.isRefused(key);
      const view = made.has(key) || isRefused ? made.get(key) : this.#tryComputeView(key);
      wanted.set(key, { view: isRefused ? undefined : view, number });
    }
    const causeOf = (key: string): number =>
      this.#origins.causedBy(oldest.get(namespaceOf(key)) ?? this.#origins.last);
    for (const key of refused) wanted.set(key, { view: undefined, number: causeOf(key) });
    for (const key of admitted) if (!wanted.has(key)) this.#noteChange(key, causeOf(key));
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

  /** A Service without rules takes no time, so it does not count towards the limits. */
  #noteChange(key: string, number = this.#origins.next()): void {
    const service = this.#services.get(key);
    this.#origins.note("changed", key, number);
    this.#changed.add(key, !service || !isProxied(service));
  }

  /** The weight of releasing all claims of a Service. Very many Services may go at once, so even few addresses have a weight. */
  #claimsWeight(key: string): number {
    const weight = this.#claims.countOf(key) / releasesPerUnit;
    return weight > 0.25 ? Math.ceil(weight) : Math.max(weight, 1 / releasesPerUnit);
  }

  /** The weight of a Service that loses addresses. */
  #losingWeight(key: string): number {
    return this.#publishedViews.has(key) ? this.#weightOf(key) : this.#claimsWeight(key);
  }

  /** The weight of a changed Service. */
  #weightOf(key: string): number {
    const service = this.#services.get(key);
    let endpoints = 0;
    for (const slice of this.#slices.get(key)?.values() ?? [])
      endpoints +=
        Math.max(1, slice.endpoints?.length ?? 0) * Math.max(1, slice.ports?.length ?? 0);
    const { ports = [], externalIPs = [], loadBalancerSourceRanges = [] } = service?.spec ?? {};
    const external = externalIPs.length + (service?.status?.loadBalancer?.ingress?.length ?? 0);
    const claims = Math.min(external * ports.length, limits.serviceAddressPorts);
    // For UDP there is a separate list of serving endpoints.
    const lists = ports.some(({ protocol }) => protocol === "UDP") ? 2 : 1;
    const ofEndpoints = Math.min(Math.floor((lists * endpoints) / endpointsPerUnit), maxWeight);
    const ofRanges = Math.floor(loadBalancerSourceRanges.length / rangesPerUnit);
    return 1 + ofEndpoints + Math.floor(claims / claimsPerUnit) + ofRanges;
  }

  /** Any user may create a Service that cannot be read. It must not hold back the changes of others. */
  #tryComputeView(key: string): ServiceView | undefined {
    try {
      return this.#computeView(key);
    } catch (error) {
      this.#options.onFailure?.(key, error);
      return undefined;
    }
  }

  #computeView(key: string): ServiceView | undefined {
    const service = this.#services.get(key);
    if (!service || !isProxied(service)) return undefined;
    return serviceViewOf(service, this.#slices.get(key)?.values() ?? [], this.#node);
  }
}

/** Sets a number for all keys. A lower one that is already there stays. */
function noteAll(numbers: Map<string, number>, keys: Iterable<string>, number: number): void {
  for (const key of keys) numbers.set(key, Math.min(numbers.get(key) ?? number, number));
}
