import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { ServiceView } from "@kip/network-view";
import { AddressClaims, type Claims } from "./address-claims.ts";

const claimsAt = (ports: readonly number[], rank: string): Claims => ({
  ports: ports.map((port) => `TCP/${port}`),
  ranks: new Map([["192.0.2.1", rank]]),
});
const viewOf = (port: number): ServiceView => ({
  clusterIps: [],
  externalIps: ["192.0.2.1"],
  ports: [{ name: "", protocol: "TCP", port, endpoints: [] }],
});

/** Whether the Service has the address at that port. */
const has = (claims: AddressClaims, service: string, port: number): boolean =>
  claims.withoutLost(service, viewOf(port)).externalIps !== undefined;

describe("AddressClaims", () => {
  it("gives each address and port to the oldest of the Services that name it, whatever comes and goes", () => {
    const step = fc.record({
      service: fc.nat(5),
      ports: fc.uniqueArray(fc.nat(2)),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const claims = new AddressClaims();
        const named = new Map<number, readonly number[]>();
        for (const { service, ports } of steps) {
          const before = holders(named);
          named.set(service, ports);
          const moves = claims.replace(`s${service}`, claimsAt(ports, `rank ${service}`));
          const after = holders(named);
          for (const port of [0, 1, 2])
            for (let i = 0; i <= 5; i++)
              assert.equal(has(claims, `s${i}`, port), after[port] === i);
          const moved = [0, 1, 2].filter((port) => before[port] !== after[port]);
          const others = (of: readonly (number | undefined)[]): readonly string[] => {
            const found = moved.map((port) => of[port]);
            const list = found.filter((each) => each !== undefined && each !== service);
            return [...new Set(list.map((each) => `s${each}`))].toSorted();
          };
          assert.deepEqual([...moves.lost].toSorted(), others(before));
          assert.deepEqual([...moves.got].toSorted(), others(after));
        }
      }),
    );
  });

  it("takes thousands of Services that name one address in a time that grows with their number", () => {
    // Processor time: on a machine with other work, the longer run waits more often.
    const msFor = (count: number): number => {
      const claims = new AddressClaims();
      const started = process.threadCpuUsage();
      for (let i = 0; i < count; i++)
        claims.replace(`s${i}`, claimsAt([80], `rank ${String(i).padStart(6, "0")}`));
      return process.threadCpuUsage(started).user / 1000;
    };
    msFor(1000);
    const small = msFor(2000);
    // Ten times the Services: a hundred times the time, if each looked at all the others.
    assert.ok(Math.min(msFor(20_000), msFor(20_000)) < 40 * Math.max(small, 5));
  });
});

/** The service of the least rank at each port. */
function holders(named: ReadonlyMap<number, readonly number[]>): readonly (number | undefined)[] {
  return [0, 1, 2].map(
    (port) =>
      [...named]
        .filter(([, ports]) => ports.includes(port))
        .map(([service]) => service)
        .toSorted((a, b) => a - b)[0],
  );
}
