import { contains, parseCidr, type PolicyRule, type Protocol } from "@kip/network-view";

/** A connection, as a rule sees it. */
export interface Attempt {
  /** The address of the peer. */
  readonly address: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/**
 * Whether rules let a connection pass, as the cell decides.
 *
 * @param rules absent if no policy restricts the direction
 * @param addressesOf addresses of a group
 */
export function isAllowed(
  rules: readonly PolicyRule[] | undefined,
  attempt: Attempt,
  addressesOf: (group: string) => readonly string[],
): boolean {
  if (rules === undefined) return true;
  return rules.some((rule) => isPeer(rule, attempt.address, addressesOf) && isPort(rule, attempt));
}

function isPeer(
  { groups, blocks }: PolicyRule,
  address: string,
  addressesOf: (group: string) => readonly string[],
): boolean {
  if (groups === undefined && blocks === undefined) return true;
  if (groups?.some((name) => addressesOf(name).includes(address)) === true) return true;
  return (blocks ?? []).some(
    ({ cidr, except = [] }) => isIn(address, cidr) && !except.some((range) => isIn(address, range)),
  );
}

function isIn(address: string, range: string): boolean {
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
