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
  claims.withoutLostAddresses(service, viewOf(port)).externalIps !== undefined;

describe("AddressClaims", () => {
  it("gives each address and port to the oldest of the Services that name it once the holder has released it, whatever comes and goes", () => {
    const step = fc.record({
      service: fc.nat(5),
      ports: fc.uniqueArray(fc.nat(2)),
      releases: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        // Services 0 and 5 have no rules: they lose at once.
        const claims = new AddressClaims((key) => key !== "s0" && key !== "s5");
        const named = new Map<number, readonly number[]>();
        let held: readonly (number | undefined)[] = [undefined, undefined, undefined];
        for (const { service, ports, releases } of steps) {
          named.set(service, ports);
          const moves = claims.replace(`s${service}`, claimsAt(ports, `rank ${service}`));
          const least = holders(named);
          const isHeld = (by: number | undefined, port: number): by is number =>
            by !== undefined && by % 5 !== 0 && named.get(by)?.includes(port) === true;
          const before = held;
          held = before.map((by, port) => (isHeld(by, port) ? by : least[port]));
          const moved = [0, 1, 2].filter((port) => held[port] !== before[port]);
          assert.deepEqual([...moves.got].toSorted(), names(held, moved, service));
          const late = [0, 1, 2].filter((port) => held[port] !== least[port]);
          for (const name of moves.losing) assert.ok(names(held, late).includes(name), name);
          const isFirst = (port: number): boolean => least[port] === service;
          for (const name of names(held, late.filter(isFirst))) assert.ok(moves.losing.has(name));
          if (releases) {
            for (const name of names(held, late)) claims.release(name);
            held = least;
          }
          for (const port of [0, 1, 2])
            for (let i = 0; i <= 5; i++) assert.equal(has(claims, `s${i}`, port), held[port] === i);
        }
      }),
    );
  });

  it("takes thousands of Services that name one address in a time that grows with their number", () => {
    // Processor time: on a machine with other work, the longer run waits more often.
    const msFor = (count: number): number => {
      const claims = new AddressClaims(() => true);
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

/** Services at some ports, without one of them. */
function names(
  of: readonly (number | undefined)[],
  ports: readonly number[],
  without?: number,
): readonly string[] {
  const found = ports.map((port) => of[port]);
  const list = found.filter((each) => each !== undefined && each !== without);
  return [...new Set(list.map((each) => `s${each}`))].toSorted();
}

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
