/** Where rules are in force, and what they depend on besides the cluster. */
export interface RoutingPlace {
  /** Addresses of the pod behind this machine. Empty for a pod with the machine's own network, and for a router. */
  readonly podAddresses: readonly string[];
  /** Addresses of the machine, if the pod has its network: where the pod's own endpoints are. @default none */
  readonly machineAddresses?: readonly string[] | undefined;
  /** The machine's end of the pod's cable; what passes it is subject to the pod's policy. */
  readonly cable?: string | undefined;
  /** Addresses at which NodePorts are answered besides the machine's own, and which every pod lets in. */
  readonly nodeAddresses: readonly string[];
  /**
   * Addresses whose packets to Services are led on, for a router: machines behind it have rules of their own. They are the node
   * itself, so `externalTrafficPolicy: Local` leads them to all endpoints. @default all, which are elsewhere
   */
  readonly clients?: readonly string[] | undefined;
  /** CIDRs of ClusterIPs. What goes to one of them and is not a Service's is dropped. */
  readonly serviceRanges: readonly string[];
  /**
   * TCP ports of the machine that no Service takes at the machine's own addresses: any user may name those as external IPs.
   * @default none
   */
  readonly machinePorts?: readonly number[] | undefined;
  /** CIDRs of machines behind a router, at whose addresses no Service takes these ports either. @default none */
  readonly machineRanges?: readonly string[] | undefined;
}
