import type { ServiceView } from "@kip/network-view";
import { PriorityQueue } from "./priority-queue.ts";

/** The claims of a Service: each of its addresses in combination with each of its ports. */
export interface Claims {
  /** Protocol and port, as `TCP/80`. */
  readonly ports: readonly string[];
  /** For each address, the rank of the Service among those that claim it. The lowest rank gets the address. */
  readonly ranks: ReadonlyMap<string, string>;
}

/** Other Services whose addresses change because of a change of claims. */
export interface Moves {
  /** Services with an address that another Service should get. They keep it until {@link AddressClaims.release}. */
  readonly losing: ReadonlySet<string>;
  /** Services that have got an address. */
  readonly got: ReadonlySet<string>;
}

interface Claimant {
  readonly service: string;
  readonly rank: string;
}

/** An address and port that several Services claim. The one with the lowest rank gets it as soon as the holder has released it. */
class ContestedAddress {
  readonly claimants = new PriorityQueue();
  holder: string | undefined;
}

/** The Services that claim an address and port. Usually there is only one, which has a smaller object. */
type Contest = Claimant | ContestedAddress;

/**
 * Decides which Service gets an address and port that several Services claim. Any user may claim any external IP. So a ClusterIP always
 * goes to its own Service, and another address to the oldest Service that claims it. Two Services never have an address at the same time: a
 * Service that loses an address keeps it until it is released.
 */
export class AddressClaims {
  readonly #hasRules: (service: string) => boolean;
  /** By address, then by port. */
  readonly #contests = new Map<string, Map<string, Contest>>();
  readonly #byService = new Map<string, Claims>();

  /** @param hasRules whether cells may have rules with a Service's addresses. If not, it loses an address immediately, without a release */
  constructor(hasRules: (service: string) => boolean) {
    this.#hasRules = hasRules;
  }

  /** Number of combinations of an address and a port that a Service claims. */
  countOf(service: string): number {
    const { ports, ranks } = this.#byService.get(service) ?? noClaims;
    return ports.length * ranks.size;
  }

  /** Replaces the claims of a Service. */
  replace(service: string, claims: Claims): Moves {
    const before = this.#byService.get(service) ?? noClaims;
    const moves = { losing: new Set<string>(), got: new Set<string>() };
    const kept = new Set(claims.ports);
    for (const address of before.ranks.keys()) {
      const isKept = claims.ranks.has(address);
      for (const port of before.ports)
        if (!isKept || !kept.has(port)) this.#set({ address, port, service }, undefined, moves);
    }
    const claimants = new Map<string, Claimant>();
    for (const [address, rank] of claims.ranks) {
      const claimant = claimants.get(rank) ?? { service, rank };
      claimants.set(rank, claimant);
      for (const port of claims.ports) this.#set({ address, port, service }, claimant, moves);
    }
    if (claims.ports.length * claims.ranks.size > 0) this.#byService.set(service, claims);
    else this.#byService.delete(service);
    return moves;
  }

  /** Gives the addresses that a Service has lost to the Services that should get them. @returns these Services */
  release(service: string): ReadonlySet<string> {
    const gained = new Set<string>();
    const { ports, ranks } = this.#byService.get(service) ?? noClaims;
    for (const address of ranks.keys()) {
      const contests = this.#contests.get(address);
      for (const port of ports) {
        const contest = contests?.get(port);
        if (!(contest instanceof ContestedAddress) || contest.holder !== service) continue;
        contest.holder = contest.claimants.least;
        if (contest.holder !== undefined && contest.holder !== service) gained.add(contest.holder);
      }
    }
    return gained;
  }

  /**
   * The view without what other Services have. It is without an external address if another Service has the address at any of the ports. It is
   * without a port if another Service still has a ClusterIP at this port.
   */
  withoutLostAddresses(service: string, view: ServiceView): ServiceView {
    const ports = portsOf(view);
    const isOwn = (address: string): boolean => {
      const contests = this.#contests.get(address);
      return ports.every((port) => holderOf(contests?.get(port)) === service);
    };
    const own = (list: readonly string[] | undefined): readonly string[] | undefined => {
      const kept = list?.filter(isOwn);
      return kept?.length === 0 ? undefined : kept;
    };
    const isReleased = (port: string): boolean =>
      view.clusterIps.every((address) => {
        const contest = this.#contests.get(address)?.get(port);
        const isOthers = contest instanceof ContestedAddress && contest.holder !== service;
        return !isOthers || rankOf(contest, contest.holder) === clusterRank;
      });
    return {
      ...view,
      externalIps: own(view.externalIps),
      loadBalancerIps: own(view.loadBalancerIps),
      ports: view.ports.filter((_, index) => isReleased(ports[index] ?? "")),
    };
  }

  /** Sets or removes a Service's claim to an address and port. Adds to `moves` the other Services that gain or lose it. */
  #set(
    where: { readonly address: string; readonly port: string; readonly service: string },
    claimant: Claimant | undefined,
    moves: { readonly losing: Set<string>; readonly got: Set<string> },
  ): void {
    const { address, port, service } = where;
    const contests = this.#contests.get(address) ?? new Map<string, Contest>();
    const contest = contests.get(port);
    const had = holderOf(contest);
    const next = changed(contest, service, claimant);
    if (next) contests.set(port, next);
    else contests.delete(port);
    if (contests.size > 0) this.#contests.set(address, contests);
    else this.#contests.delete(address);
    if (next instanceof ContestedAddress) {
      const { least } = next.claimants;
      const isHeld = next.holder !== undefined && this.#isHolding(next, next.holder);
      if (!isHeld) next.holder = least;
      else if (next.holder !== least && next.holder !== undefined) moves.losing.add(next.holder);
    }
    const has = holderOf(next);
    if (had !== has && has !== undefined && has !== service) moves.got.add(has);
  }

  #isHolding(contest: ContestedAddress, holder: string): boolean {
    return rankOf(contest, holder) !== undefined && this.#hasRules(holder);
  }
}

/** The rank of a ClusterIP: lower than that of any external address. */
const clusterRank = "0";

/** The claims of a Service without addresses. */
export const noClaims: Claims = { ports: [], ranks: new Map() };

/** The claims that follow from the view of a Service. */
export function claimsOf(key: string, created: string, view: ServiceView): Claims {
  const external = `1 ${created} ${key}`;
  const ranks = new Map<string, string>();
  for (const list of [view.externalIps, view.loadBalancerIps])
    for (const address of list ?? []) ranks.set(address, external);
  for (const address of view.clusterIps) ranks.set(address, clusterRank);
  return { ports: portsOf(view), ranks };
}

function portsOf({ ports }: ServiceView): readonly string[] {
  return ports.map(({ protocol, port }) => `${protocol}/${port}`);
}

function holderOf(contest: Contest | undefined): string | undefined {
  return contest instanceof ContestedAddress ? contest.holder : contest?.service;
}

function rankOf({ claimants }: ContestedAddress, service: string | undefined): string | undefined {
  return service === undefined ? undefined : claimants.rankOf(service);
}

/** The contest after a Service's claim was set, or removed with undefined. The holder stays the same. Returns undefined if no claim remains. */
function changed(
  contest: Contest | undefined,
  service: string,
  claimant: Claimant | undefined,
): Contest | undefined {
  if (contest instanceof ContestedAddress) {
    contest.claimants.set(service, claimant?.rank);
    return contest.claimants.size > 0 ? contest : undefined;
  }
  if (!contest || contest.service === service) return claimant;
  if (!claimant) return contest;
  const several = new ContestedAddress();
  several.holder = contest.service;
  for (const each of [contest, claimant]) several.claimants.set(each.service, each.rank);
  return several;
}
