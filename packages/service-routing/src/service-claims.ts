import type { ServiceView } from "@kip/network-view";

/**
 * Decides which Service gets an element of a map if several claim it, because a map has only one value for a key. The API server assigns a
 * ClusterIP or a NodePort to only one Service. But a machine gets changes in parts, so the new owner of an address may arrive before the old
 * one has released it. The last Service gets the element. When it releases the element, the one before gets it back.
 */
export class ServiceClaims {
  readonly #holders = new Map<string, string>();
  /** Services that claim an element of another one, in the order of their claims. */
  readonly #waiting = new Map<string, readonly string[]>();

  /**
   * Replaces the claims of a Service.
   *
   * @returns other Services that get or lose an element because of this
   */
  replace(
    service: string,
    before: ReadonlySet<string>,
    after: ReadonlySet<string>,
  ): ReadonlySet<string> {
    const affected = new Set<string>();
    for (const claim of before) if (!after.has(claim)) this.#release(claim, service, affected);
    for (const claim of after) if (!before.has(claim)) this.#take(claim, service, affected);
    return affected;
  }

  /** Those of a Service's claims for which another Service has the element. */
  lost(service: string, claims: ReadonlySet<string>): ReadonlySet<string> {
    if (this.#waiting.size === 0) return new Set();
    return new Set([...claims].filter((claim) => this.#holders.get(claim) !== service));
  }

  /** Whether any Service has an element. */
  isHeld(claim: string): boolean {
    return this.#holders.has(claim);
  }

  #take(claim: string, service: string, affected: Set<string>): void {
    const holder = this.#holders.get(claim);
    this.#holders.set(claim, service);
    if (holder === undefined || holder === service) return;
    this.#waiting.set(claim, [...(this.#waiting.get(claim) ?? []), holder]);
    affected.add(holder);
  }

  #release(claim: string, service: string, affected: Set<string>): void {
    const waiting = this.#waiting.get(claim) ?? [];
    if (this.#holders.get(claim) !== service) {
      this.#setWaiting(
        claim,
        waiting.filter((other) => other !== service),
      );
      return;
    }
    const next = waiting.at(-1);
    this.#setWaiting(claim, waiting.slice(0, -1));
    if (next === undefined) {
      this.#holders.delete(claim);
      return;
    }
    this.#holders.set(claim, next);
    affected.add(next);
  }

  #setWaiting(claim: string, services: readonly string[]): void {
    if (services.length > 0) this.#waiting.set(claim, services);
    else this.#waiting.delete(claim);
  }
}

/** Keys of the elements that a Service claims: addresses, addresses with protocol and port, and NodePorts. */
export function claimsOf(view: ServiceView | undefined): ReadonlySet<string> {
  if (!view) return new Set();
  const { clusterIps, externalIps = [], loadBalancerIps = [], ports } = view;
  const claims = new Set(clusterIps);
  for (const { protocol: name, port, nodePort } of ports) {
    const protocol = name.toLowerCase();
    for (const address of [...clusterIps, ...externalIps, ...loadBalancerIps])
      claims.add(`${address} . ${protocol} . ${port}`);
    if (nodePort !== undefined) claims.add(`${protocol} . ${nodePort}`);
  }
  return claims;
}

/** The claim that an element of a rule set belongs to. See `RuleSet`. */
export function claimOf(element: string): string {
  const [map = "", ...key] = element.split(" ");
  // The key of an endpoint ends with its index among those of the Service.
  return (map === "endpoints" ? key.slice(0, -2) : key).join(" ");
}
