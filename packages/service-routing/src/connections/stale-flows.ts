import type { ServiceView } from "@kip/network-view";

/**
 * Flows of UDP to one destination that the kernel must forget. While a client goes on sending, its flow never ends: it would stay with an
 * endpoint that is gone, or untranslated if the Service had no endpoints at its begin. As with kube-proxy, a flow to an endpoint that still
 * serves stays, even if new clients are led elsewhere.
 */
export interface StaleFlows extends FlowTarget {
  /** Endpoints whose flows stay, see `endpointText`. All addresses of a port share the object, as users may name very many addresses. */
  readonly serving: ReadonlySet<string>;
  /** Whether flows that are not translated are stale, too. */
  readonly isUntranslatedStale: boolean;
  /** For a NodePort: whether a Service has the same port number at an address. Then flows to that address are not the NodePort's. @default never */
  readonly isOfService?: ((address: string) => boolean) | undefined;
}

/** Where clients send to. */
export interface FlowTarget {
  /** Absent for a NodePort, which has several. */
  readonly address?: string | undefined;
  /** Port of the Service or of nodes. */
  readonly port: number;
}

/** A Service, and which of its claims another Service has; see `claimsOf`. */
export interface ClaimedService {
  readonly view: ServiceView | undefined;
  readonly lost: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();

/**
 * Flows that are stale after a change of a Service. If a destination was not known before, all that none of its endpoints answers: an earlier
 * process may have led them elsewhere.
 *
 * @param isPending whether flows to a destination are stale from before and not forgotten yet. These are given again with the endpoints that
 * serve now, as some may serve again. @default never
 */
export function staleFlows(
  before: ClaimedService,
  after: ClaimedService,
  isPending: (to: FlowTarget) => boolean = () => false,
): readonly StaleFlows[] {
  const [old, now] = [udpTargets(before), udpTargets(after)];
  const result: StaleFlows[] = [];
  for (const key of new Set([...old.keys(), ...now.keys()])) {
    const [was, is] = [old.get(key) ?? noTarget, now.get(key) ?? noTarget];
    const isOther = makesFlowsStale(was.serving, is.serving);
    for (const address of new Set([...was.addresses, ...is.addresses])) {
      const [wasIn, isIn] = [was, is].map(({ addresses }) => addresses.has(address));
      const port = is.port || was.port;
      const isSame = wasIn === true && isIn === true && !isOther;
      if (isSame && !isPending({ address, port })) continue;
      const serving = isIn ? is.serving : none;
      const isFirst = !wasIn || was.serving.size === 0;
      // Untranslated flows to the number of a NodePort may be those to other machines. They count only when the port is new or had no endpoints.
      const isUntranslatedStale = !isSame && serving.size > 0 && (address !== undefined || isFirst);
      result.push({ address, port, serving, isUntranslatedStale });
    }
  }
  return result;
}

/** Whether existing flows become stale: an endpoint is gone, or the first ones have come. */
function makesFlowsStale(was: ReadonlySet<string>, is: ReadonlySet<string>): boolean {
  if (was.size === 0) return is.size > 0;
  for (const endpoint of was) if (!is.has(endpoint)) return true;
  return false;
}

/** One port, at the addresses of one family, or as a NodePort at those of nodes. */
interface UdpTarget {
  readonly addresses: ReadonlySet<string | undefined>;
  readonly port: number;
  readonly serving: ReadonlySet<string>;
}

const noTarget: UdpTarget = { addresses: new Set(), port: 0, serving: none };

function udpTargets({ view, lost }: ClaimedService): ReadonlyMap<string, UdpTarget> {
  const result = new Map<string, UdpTarget>();
  if (!view) return result;
  const { clusterIps, externalIps = [], loadBalancerIps = [] } = view;
  const addresses = [...clusterIps, ...externalIps, ...loadBalancerIps];
  for (const { protocol, port, nodePort, ...lists } of view.ports) {
    if (protocol !== "UDP") continue;
    const { endpoints, localEndpoints = [], servingEndpoints = [] } = lists;
    const all = [...endpoints, ...localEndpoints, ...servingEndpoints];
    for (const isIpv6 of [false, true]) {
      const own = addresses.filter(
        (each) => each.includes(":") === isIpv6 && !lost.has(`${each} . udp . ${port}`),
      );
      const serving = new Set(all.filter((endpoint) => endpoint.startsWith("[") === isIpv6));
      if (own.length > 0)
        result.set(`${port} ${isIpv6}`, { addresses: new Set(own), port, serving });
    }
    if (nodePort !== undefined && !lost.has(`udp . ${nodePort}`))
      result.set(`/${nodePort}`, {
        addresses: new Set([undefined]),
        port: nodePort,
        serving: new Set(all),
      });
  }
  return result;
}
