import { limits, type ServicePortView, type ServiceView } from "@kip/network-view";
import { haveCollidingHashes } from "./affinity-rules.ts";
import type { ClaimedService } from "./connections/stale-flows.ts";
import type { Family } from "./family.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { emptyRuleSet, type RuleSet } from "./rule-set.ts";
import { claimOf } from "./service-claims.ts";
import { portEndpoints, portRules, sharedRules } from "./service-rules.ts";

/** The work for an endpoint with session affinity, which has a hash and two elements. Other endpoints count as 1. */
const affinityWork = 3;

/** The work for an address of a port, in endpoints. It is looked up among those of other Services. */
const addressWork = 3;

/** A change of a Service, and the machine that its rules are for. */
export interface ServiceChange {
  /** Namespace and name. */
  readonly key: string;
  readonly family: Family;
  readonly place: RoutingPlace;
  readonly before: ClaimedService;
  readonly after: ClaimedService;
}

/** A part of a change: the rules of one port, or those that all ports share. */
export interface RulesChange {
  readonly before: RuleSet;
  readonly after: RuleSet;
  /** The work for this part, as a number of endpoints read. */
  readonly work: number;
}

/**
 * The rule sets of a Service before and after a change, port by port, in the table of one family. If there are many endpoints, both omit
 * unchanged elements, because it is much faster to compare endpoints than to make elements.
 */
export function* changedRules(change: ServiceChange): Generator<RulesChange> {
  const { before, after } = change;
  const shared = (service: ClaimedService): RuleSet =>
    rulesOf(service, (view) => sharedRules({ ...change, view }));
  // The firewall of source ranges has an element for each address of each port.
  const sharedWork = workOf(before.view) + workOf(after.view);
  yield { before: shared(before), after: shared(after), work: sharedWork };
  const addresses = addressCount(before.view) + addressCount(after.view);
  const hasAffinity = [before, after].some(({ view }) => view?.affinitySeconds !== undefined);
  const isSame = isSameButEndpoints(before, after);
  for (const [old, next] of portPairs(before.view, after.view)) {
    const { family } = change;
    const places = isSame ? changedPlaces(old, next, { family, hasAffinity }) : undefined;
    const rules = (service: ClaimedService, port: ServicePortView | undefined): RuleSet =>
      port
        ? rulesOf(service, (view) => portRules({ ...change, view, port, places }))
        : emptyRuleSet;
    const endpoints = endpointCount(old) + endpointCount(next);
    const work = 1 + addresses + endpoints * (hasAffinity ? affinityWork : 1);
    yield { before: rules(before, old), after: rules(after, next), work };
  }
}

/** How many endpoints a port has in its lists. */
export function endpointCount(port: ServicePortView | undefined): number {
  return (port?.endpoints.length ?? 0) + (port?.localEndpoints?.length ?? 0);
}

/** The work for a Service, as a number of endpoints read. Users decide how many endpoints and addresses there are. */
export function workOf(view: ServiceView | undefined): number {
  const ofPort = 1 + addressWork * addressCount(view);
  return view?.ports.reduce((sum, port) => sum + ofPort + endpointCount(port), 1) ?? 1;
}

function addressCount(view: ServiceView | undefined): number {
  if (!view) return 0;
  const { clusterIps, externalIps = [], loadBalancerIps = [] } = view;
  return clusterIps.length + externalIps.length + loadBalancerIps.length;
}

/** The same port of two views of a Service. */
export function portOf(
  view: ServiceView | undefined,
  { port, protocol }: ServicePortView,
): ServicePortView | undefined {
  return view?.ports.find((each) => each.port === port && each.protocol === protocol);
}

function* portPairs(
  before: ServiceView | undefined,
  after: ServiceView | undefined,
): Generator<readonly [ServicePortView | undefined, ServicePortView | undefined]> {
  for (const port of before?.ports ?? []) if (!portOf(after, port)) yield [port, undefined];
  for (const port of after?.ports ?? []) yield [portOf(before, port), port];
}

/** Whether two states of a Service differ at most in the endpoints of ports. */
function isSameButEndpoints(before: ClaimedService, after: ClaimedService): boolean {
  if (before.lost.size > 0 || after.lost.size > 0) return false;
  return headOf(before.view) === headOf(after.view);
}

function headOf(view: ServiceView | undefined): string {
  return JSON.stringify(view, (name, value: unknown) => {
    if (name === "affinitySeconds") return value !== undefined; // the timeout is not in elements
    return name.toLowerCase().endsWith("endpoints") ? undefined : value;
  });
}

/**
 * The indexes at which the endpoints of a port differ, in any of its lists. Undefined if elements must be made for all endpoints. This is the
 * case for few endpoints, because with several external addresses and more endpoints, a chain replaces their elements. It is also the case with
 * session affinity, if the numbers of endpoints depend on each other.
 */
function changedPlaces(
  before: ServicePortView | undefined,
  after: ServicePortView | undefined,
  { family, hasAffinity }: { readonly family: Family; readonly hasAffinity: boolean },
): ReadonlySet<number> | undefined {
  if (!before || !after) return undefined;
  const [old, next] = [portEndpoints(before, family), portEndpoints(after, family)];
  if (Math.min(old.anywhere.length, next.anywhere.length) <= limits.chainElements) return undefined;
  const lists = [
    [old.anywhere, next.anywhere],
    [old.onNode, next.onNode],
  ] as const;
  // If an endpoint with a colliding hash is added or removed, the number of another endpoint may change although its index does not.
  if (hasAffinity && lists.flat().some(haveCollidingHashes)) return undefined;
  const places = new Set<number>();
  for (const [a, b] of lists)
    for (let place = 0; place < Math.max(a.length, b.length); place++)
      if (a[place] !== b[place]) places.add(place);
  return places;
}

function rulesOf({ view, lost }: ClaimedService, make: (view: ServiceView) => RuleSet): RuleSet {
  return view ? without(make(view), lost) : emptyRuleSet;
}

/** The rules without elements that another Service has. */
function without(rules: RuleSet, lost: ReadonlySet<string>): RuleSet {
  if (lost.size === 0) return rules;
  const elements = [...rules.elements].filter(([element]) => !lost.has(claimOf(element)));
  return { ...rules, elements: new Map(elements) };
}
