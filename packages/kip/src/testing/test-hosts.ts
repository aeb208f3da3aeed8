import type { DedicatedHost, DedicatedHosts } from "@kip/cloud";

/** Dedicated hosts for tests. */
export interface TestHosts extends DedicatedHosts {
  /** Hosts that have not been released. Tests may change them. */
  hosts: readonly DedicatedHost[];
  /** Hosts that the cloud keeps, with its reason. */
  readonly kept: Map<string, string>;
  /** How often hosts were to be released. */
  releases: number;
}

/** A host with these instances. */
export function testHost(id: string, instanceIds: readonly string[] = []): DedicatedHost {
  const allocatedAt = "2030-01-01T00:00:00.000Z";
  return { id, owner: "kip", instanceType: "sim.1", zone: "simulated-1", allocatedAt, instanceIds };
}

/** Hosts that release those without instances, unless the cloud keeps them. */
export function testHosts(...hosts: readonly DedicatedHost[]): TestHosts {
  const own: TestHosts = {
    hosts,
    kept: new Map(),
    releases: 0,
    list: async () => await Promise.resolve(own.hosts),
    releaseEmpty: async () => {
      own.releases += 1;
      const empty = own.hosts.filter(({ instanceIds }) => instanceIds.length === 0);
      own.hosts = own.hosts.filter(({ id }) => own.kept.has(id) || !empty.some((e) => e.id === id));
      return await Promise.resolve(
        empty.map((host) => {
          const refusal = own.kept.get(host.id);
          return refusal === undefined ? { host } : { host, refusal };
        }),
      );
    },
  };
  return own;
}
