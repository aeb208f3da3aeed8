/** What the rules depend on besides the cluster: where they are in force. */
export interface RoutingPlace {
  /** Addresses of the pod behind this machine. Empty for a pod with the machine's own network, and for a router. */
  readonly podAddresses: readonly string[];
  /** The machine's end of the pod's cable; what passes it is subject to the pod's policy. */
  readonly cable?: string | undefined;
  /** Addresses at which NodePorts are answered besides the machine's own, and which every pod lets in. */
  readonly nodeAddresses: readonly string[];
  /** Addresses whose packets to Services are led on. A router has machines behind it that have rules of their own. @default all */
  readonly clients?: readonly string[] | undefined;
  /** CIDRs of ClusterIPs. What goes to one of them and is not a Service's is dropped. */
  readonly serviceRanges: readonly string[];
  /**
   * TCP ports of the machine that no Service takes at the machine's own addresses: any user may name those as external IPs.
   * @default none
   */
  readonly machinePorts?: readonly number[] | undefined;
  /**
   * Which endpoints are local for `externalTrafficPolicy: Local`: the pod's own alone, as a packet that keeps its source
   * must come back through this machine, or all of the virtual node.
   */
  readonly localEndpoints: "own" | "node";
}
