/** The machine on which rules are in force, with its pod and its settings. */
export interface RoutingPlace {
  /** Addresses of the machine's pod. Empty for a pod with `hostNetwork`, and for a router. */
  readonly podAddresses: readonly string[];
  /** Addresses of the machine, if its pod has `hostNetwork`. The pod's own endpoints have these addresses. @default none */
  readonly machineAddresses?: readonly string[] | undefined;
  /** The machine's end of the pod's cable. The pod's policy applies to packets that pass it. */
  readonly cable?: string | undefined;
  /** Addresses at which NodePorts are open, besides the machine's own. Packets from them may always reach pods. */
  readonly nodeAddresses: readonly string[];
  /**
   * For a router: addresses of clients whose packets to Services are routed. Machines behind the router have their own rules. The clients count
   * as the node itself, so `externalTrafficPolicy: Local` routes them to all endpoints. @default all clients, which count as external
   */
  readonly clients?: readonly string[] | undefined;
  /** CIDRs of ClusterIPs. Packets to an address in them that belongs to no Service are dropped. */
  readonly serviceRanges: readonly string[];
  /**
   * TCP ports of the machine that no Service can use at the machine's own addresses. Any user may choose those addresses as external IPs.
   * @default none
   */
  readonly machinePorts?: readonly number[] | undefined;
  /** CIDRs of machines behind a router. No Service can use these ports at their addresses either. @default none */
  readonly machineRanges?: readonly string[] | undefined;
}
