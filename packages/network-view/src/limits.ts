/**
 * How much one part of a view may hold. The API server allows a Service 100 ports in practice; 5,000 endpoints are
 * five times what Kubernetes supports for one Service.
 */
export const limits = {
  /** Addresses of one kind of a Service: cluster IPs, external IPs, addresses of load balancers, source ranges. */
  addresses: 256,
  /** Ports of a Service. */
  ports: 256,
  /** Endpoints of one port. */
  endpoints: 5000,
  /** Endpoints of all ports of a Service, those on the node counted again: with IPv6, about 1.8 MB of its line. */
  serviceEndpoints: 36_000,
  /**
   * The same for a Service with session affinity, whose endpoints have two elements each, and a number that is made again with each
   * change of them.
   */
  affinityEndpoints: 2000,
  /**
   * Rules of one direction of a policy or a tier, and groups, ports, blocks or exceptions of one rule: 16,384 that NetworkPolicies may
   * have, and those of the numbers of named ports.
   */
  rules: 20_480,
  /** The same for agents before version 3 of `policyVersion`. */
  rulesOfEarlierAgents: 4096,
  /** Addresses that one line adds to a group, or takes from it. */
  groupAddresses: 5000,
  /**
   * External addresses and those of load balancers of a Service, once for each port: each is an element of a map on every cell. Of
   * 65,536, which a Service of 25 kB has, nft takes 274 MB and 2 s, and kip 30 MB.
   */
  serviceAddressPorts: 1024,
  /**
   * What a chain of its own counts in elements: nft 1.0.6 looks at all chains for each one. Beside 10,000 of them it takes 14 s to fill a
   * table and 0.12 s for one change, where 10,000 elements take 0.7 s and 0.01 s.
   */
  chainElements: 20,
  /** Characters of a key: namespace and name of a Service, or the name of a group. */
  keyCharacters: 320,
  /** Bytes of a line. */
  lineBytes: 2 * 1024 * 1024,
  /** Bytes of a change: what a cell keeps before it puts it in force. */
  changeBytes: 32 * 1024 * 1024,
} as const;
