import type { ServiceView } from "@kip/network-view";
import { PriorityQueue } from "./priority-queue.ts";

/** What a Service asks for: each of its addresses with each of its ports. */
export interface Claims {
  /** Protocol and port, as `TCP/80`. */
  readonly ports: readonly string[];
  /** How each address ranks among those that ask for it: the least has it. */
  readonly ranks: ReadonlyMap<string, string>;
}

/** Other Services that are to have other addresses by a change of claims. */
export interface Moves {
  /** They have an address that is another one's now, and keep it until {@link AddressClaims.release}. */
  readonly losing: ReadonlySet<string>;
  /** They have one more. */
  readonly got: ReadonlySet<string>;
}

interface Claimant {
  readonly service: string;
  readonly rank: string;
}

/** Several that ask for an address at a port: it is the least one's, as soon as the holder has released it. */
class Several {
  readonly claimants = new PriorityQueue();
  holder: string | undefined;
}

/** Who asks for an address at a port. Nearly always it is one alone, and that one is all that is kept. */
type Contest = Claimant | Several;

/**
 * Who has an address and port that several Services name. Anyone who may write a Service may name any external IP, so a
 * cluster IP is never given away, and of other Services the oldest one gets it. No two rules of nodes are for one address: who loses it
 * has it until it says that it no longer does.
 */
export class AddressClaims {
  readonly #hasRules: (service: string) => boolean;
  /** By address, then by port. */
  readonly #contests = new Map<string, Map<string, Contest>>();
  readonly #byService = new Map<string, Claims>();

  /** @param hasRules whether nodes have rules with addresses of a Service; one without loses them at once */
  constructor(hasRules: (service: string) => boolean) {
    this.#hasRules = hasRules;
  }

  /** How many addresses a Service asks for, each once for each port. */
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

  /** Gives what is another Service's now to that one. @returns those that have it */
  release(service: string): ReadonlySet<string> {
    const got = new Set<string>();
    const { ports, ranks } = this.#byService.get(service) ?? noClaims;
    for (const address of ranks.keys()) {
      const contests = this.#contests.get(address);
      for (const port of ports) {
        const contest = contests?.get(port);
        if (!(contest instanceof Several) || contest.holder !== service) continue;
        contest.holder = contest.claimants.least;
        if (contest.holder !== undefined && contest.holder !== service) got.add(contest.holder);
      }
    }
    return got;
  }

  /**
   * The view without external addresses of which another Service has one of the ports, and without ports at which another has not released
   * a cluster IP.
   */
  withoutLost(service: string, view: ServiceView): ServiceView {
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
        const isOthers = contest instanceof Several && contest.holder !== service;
        return !isOthers || rankOf(contest, contest.holder) === clusterRank;
      });
    return {
      ...view,
      externalIps: own(view.externalIps),
      loadBalancerIps: own(view.loadBalancerIps),
      ports: view.ports.filter((_, index) => isReleased(ports[index] ?? "")),
    };
  }

  /** Notes who has the address at a port afterwards, if that is another Service than before, or who is to have it. */
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
    if (next instanceof Several) {
      const { least } = next.claimants;
      const isHeld = next.holder !== undefined && this.#isHolding(next, next.holder);
      if (!isHeld) next.holder = least;
      else if (next.holder !== least && next.holder !== undefined) moves.losing.add(next.holder);
    }
    const has = holderOf(next);
    if (had !== has && has !== undefined && has !== service) moves.got.add(has);
  }

  #isHolding(contest: Several, holder: string): boolean {
    return rankOf(contest, holder) !== undefined && this.#hasRules(holder);
  }
}

/** Before all external addresses. */
const clusterRank = "0";

/** Nothing is asked for. */
export const noClaims: Claims = { ports: [], ranks: new Map() };

/** What a Service asks for by its view. */
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
  return contest instanceof Several ? contest.holder : contest?.service;
}

function rankOf({ claimants }: Several, service: string | undefined): string | undefined {
  return service === undefined ? undefined : claimants.rankOf(service);
}

/** A contest with another claim of a Service, or without one, and the holder of before; undefined if none is left. */
function changed(
  contest: Contest | undefined,
  service: string,
  claimant: Claimant | undefined,
): Contest | undefined {
  if (contest instanceof Several) {
    contest.claimants.set(service, claimant?.rank);
    return contest.claimants.size > 0 ? contest : undefined;
  }
  if (!contest || contest.service === service) return claimant;
  if (!claimant) return contest;
  const several = new Several();
  several.holder = contest.service;
  for (const each of [contest, claimant]) several.claimants.set(each.service, each.rank);
  return several;
}
