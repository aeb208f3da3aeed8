import type { DedicatedHost, DedicatedHosts } from "@kip/cloud";

/** Dedicated hosts as a test has them. */
export interface TestHosts extends DedicatedHosts {
  /** Those that have not been given back; a test changes them. */
  hosts: readonly DedicatedHost[];
  /** Hosts that the cloud keeps, and its words. */
  readonly kept: Map<string, string>;
  /** How often hosts were to be given back. */
  releases: number;
}

/** A host with these instances. */
export function testHost(id: string, instanceIds: readonly string[] = []): DedicatedHost {
  const allocatedAt = "2030-01-01T00:00:00.000Z";
  return { id, owner: "kip", instanceType: "sim.1", zone: "simulated-1", allocatedAt, instanceIds };
}

/** Hosts that give back those without instances, unless they are kept. */
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
