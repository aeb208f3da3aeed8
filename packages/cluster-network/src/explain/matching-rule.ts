import { contains, parseCidr, type PolicyRule, type Protocol } from "@kip/network-view";

/** The properties of a connection that rules match. */
export interface Attempt {
  /** The address of the peer. */
  readonly address: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/**
 * Finds the first rule that matches a connection, like the rules on the cell.
 *
 * @param addressesOf returns the addresses of a group
 * @returns its index, or −1
 */
export function matchingRule(
  rules: readonly PolicyRule[],
  attempt: Attempt,
  addressesOf: (group: string) => ReadonlySet<string>,
): number {
  return rules.findIndex(
    (rule) => isPeer(rule, attempt.address, addressesOf) && isPort(rule, attempt),
  );
}

function isPeer(
  { groups, blocks }: PolicyRule,
  address: string,
  addressesOf: (group: string) => ReadonlySet<string>,
): boolean {
  if (groups === undefined && blocks === undefined) return true;
  if (groups?.some((name) => addressesOf(name).has(address)) === true) return true;
  return (blocks ?? []).some(
    ({ cidr, except = [] }) =>
      isInRange(address, cidr) && !except.some((range) => isInRange(address, range)),
  );
}

/** Whether an address is in a CIDR. */
export function isInRange(address: string, range: string): boolean {
  const [inner, outer] = [parseCidr(address), parseCidr(range)];
  return inner !== undefined && outer !== undefined && contains(outer, inner);
}

function isPort({ ports }: PolicyRule, attempt: Attempt): boolean {
  if (ports === undefined) return true;
  return ports.some(
    ({ protocol, port, endPort = port }) =>
      protocol === attempt.protocol &&
      (port === undefined || (attempt.port >= port && attempt.port <= (endPort ?? port))),
  );
}
