import type { ServiceView } from "@kip/network-view";

/** An address that a Service asks for, and how it ranks among others that do. */
export interface AddressClaim {
  readonly address: string;
  readonly protocol: string;
  readonly port: number;
  /** The least of all claims of one address and port has it. */
  readonly rank: string;
}

/** Services that name one address and port. */
interface Contest {
  readonly ranks: Map<string, string>;
  /** The Service of the least rank; kept, as any number of Services may name one address. */
  holder: string;
}

/**
 * Who has an address and port that several Services name. Anyone who may write a Service may name any external IP, so a
 * cluster IP is never given away, and of other Services the oldest one gets it. No two rules of nodes are for one address.
 */
export class AddressClaims {
  /** By address, protocol and port. */
  readonly #contests = new Map<string, Contest>();
  readonly #byService = new Map<string, readonly string[]>();

  /**
   * Replaces the claims of a Service.
   *
   * @returns other Services that have got or lost an address by that
   */
  replace(service: string, claims: readonly AddressClaim[]): ReadonlySet<string> {
    const next = new Map(
      claims.map((claim) => [`${claim.address}/${claim.protocol}/${claim.port}`, claim.rank]),
    );
    const before = this.#byService.get(service) ?? [];
    const affected = new Set<string>();
    for (const key of new Set([...before, ...next.keys()])) {
      const had = this.#holder(key);
      this.#set(key, service, next.get(key));
      const has = this.#holder(key);
      for (const other of [had, has])
        if (had !== has && other !== undefined && other !== service) affected.add(other);
    }
    if (next.size > 0) this.#byService.set(service, [...next.keys()]);
    else this.#byService.delete(service);
    return affected;
  }

  /** The view without addresses of which another Service has one of the ports. */
  withoutLost(service: string, view: ServiceView): ServiceView {
    const isOwn = (address: string): boolean =>
      view.ports.every(
        ({ protocol, port }) => this.#holder(`${address}/${protocol}/${port}`) === service,
      );
    const own = (list: readonly string[] | undefined): readonly string[] | undefined => {
      const kept = list?.filter(isOwn);
      return kept?.length === 0 ? undefined : kept;
    };
    return {
      ...view,
      externalIps: own(view.externalIps),
      loadBalancerIps: own(view.loadBalancerIps),
    };
  }

  #holder(key: string): string | undefined {
    return this.#contests.get(key)?.holder;
  }

  #set(key: string, service: string, rank: string | undefined): void {
    const contest = this.#contests.get(key);
    if (!contest) {
      if (rank !== undefined)
        this.#contests.set(key, { ranks: new Map([[service, rank]]), holder: service });
      return;
    }
    const { ranks, holder } = contest;
    if (rank === undefined) ranks.delete(service);
    else ranks.set(service, rank);
    if (ranks.size === 0) this.#contests.delete(key);
    else if (service === holder) contest.holder = leastOf(ranks);
    else if (rank !== undefined && rank < (ranks.get(holder) ?? "")) contest.holder = service;
  }
}

function leastOf(ranks: ReadonlyMap<string, string>): string {
  let least: readonly [service: string, rank: string] = ["", "\uffff"];
  for (const claim of ranks) if (claim[1] < least[1]) least = claim;
  return least[0];
}

/** What a Service asks for: its addresses, each with each of its ports. */
export function claimsOf(key: string, created: string, view: ServiceView): readonly AddressClaim[] {
  const external = [...(view.externalIps ?? []), ...(view.loadBalancerIps ?? [])];
  const ranked = [
    ...external.map((address) => ({ address, rank: `1 ${created} ${key}` })),
    ...view.clusterIps.map((address) => ({ address, rank: "0" })),
  ];
  return view.ports.flatMap(({ protocol, port }) =>
    ranked.map((claim) => ({ ...claim, protocol, port })),
  );
}
