import type { ServiceView } from "@kip/network-view";

/**
 * UDP flows to one destination that the kernel must delete. While a client continues to send, its flow never ends. It would keep an endpoint
 * that is gone, or stay untranslated if the Service had no endpoints when the flow began. As in kube-proxy, a flow to an endpoint that still
 * serves is kept, even if new clients get other endpoints.
 */
export interface StaleFlows extends FlowTarget {
  /** Endpoints whose flows are kept, see `endpointText`. All addresses of a port share this set, because users may use very many addresses. */
  readonly serving: ReadonlySet<string>;
  /** Whether untranslated flows are also stale. */
  readonly isUntranslatedStale: boolean;
  /** For a NodePort: whether a Service has this port at an address. If so, flows to that address do not belong to the NodePort. @default never */
  readonly isOfService?: ((address: string) => boolean) | undefined;
}

/** The destination that clients send to. */
export interface FlowTarget {
  /** Absent for a NodePort, which has several addresses. */
  readonly address?: string | undefined;
  /** Port of the Service, or NodePort. */
  readonly port: number;
}

/** A Service, and those of its claims that another Service has. See `claimsOf`. */
export interface ClaimedService {
  readonly view: ServiceView | undefined;
  readonly lost: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();

/**
 * Flows that are stale after a change of a Service. If a destination was not known before, all flows to it without a serving endpoint are
 * stale, because an earlier process may have routed them elsewhere.
 *
 * @param isPending whether flows to a destination became stale earlier and are not deleted yet. These are returned again with the endpoints
 * that serve now, because some endpoints may serve again. @default never
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
      // Untranslated flows to the number of a NodePort may go to other machines. They are only stale if the port is new or had no endpoints.
      const isUntranslatedStale = !isSame && serving.size > 0 && (address !== undefined || isFirst);
      result.push({ address, port, serving, isUntranslatedStale });
    }
  }
  return result;
}

/** Whether existing flows become stale: an endpoint is gone, or the Service got its first endpoints. */
function makesFlowsStale(was: ReadonlySet<string>, is: ReadonlySet<string>): boolean {
  if (was.size === 0) return is.size > 0;
  for (const endpoint of was) if (!is.has(endpoint)) return true;
  return false;
}

/** One port at the Service's addresses of one family, or a NodePort. */
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
