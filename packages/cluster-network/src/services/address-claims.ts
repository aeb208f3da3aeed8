import type { ServiceView } from "@kip/network-view";
import { LeastFirst } from "./least-first.ts";

/** An address that a Service asks for, and how it ranks among others that do. */
export interface AddressClaim {
  readonly address: string;
  readonly protocol: string;
  readonly port: number;
  /** The least of all claims of one address and port has it. */
  readonly rank: string;
}

/** Other Services that have other addresses by a change of claims. */
export interface Moves {
  readonly lost: ReadonlySet<string>;
  readonly got: ReadonlySet<string>;
}

/**
 * Who has an address and port that several Services name. Anyone who may write a Service may name any external IP, so a
 * cluster IP is never given away, and of other Services the oldest one gets it. No two rules of nodes are for one address.
 */
export class AddressClaims {
  /** By address, protocol and port. */
  readonly #contests = new Map<string, LeastFirst>();
  readonly #byService = new Map<string, readonly string[]>();

  /** Replaces the claims of a Service. */
  replace(service: string, claims: readonly AddressClaim[]): Moves {
    const next = new Map(
      claims.map((claim) => [`${claim.address}/${claim.protocol}/${claim.port}`, claim.rank]),
    );
    const before = this.#byService.get(service) ?? [];
    const lost = new Set<string>();
    const got = new Set<string>();
    for (const key of new Set([...before, ...next.keys()])) {
      const had = this.#holder(key);
      this.#set(key, service, next.get(key));
      const has = this.#holder(key);
      if (had === has) continue;
      if (had !== undefined && had !== service) lost.add(had);
      if (has !== undefined && has !== service) got.add(has);
    }
    if (next.size > 0) this.#byService.set(service, [...next.keys()]);
    else this.#byService.delete(service);
    return { lost, got };
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
    return this.#contests.get(key)?.least;
  }

  #set(key: string, service: string, rank: string | undefined): void {
    const contest = this.#contests.get(key);
    if (!contest && rank === undefined) return;
    const ranks = contest ?? new LeastFirst();
    ranks.set(service, rank);
    if (ranks.size === 0) this.#contests.delete(key);
    else if (!contest) this.#contests.set(key, ranks);
  }
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
