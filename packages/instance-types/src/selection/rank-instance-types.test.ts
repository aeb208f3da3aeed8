import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";

import type { CustomFamily, OfferedInstanceType } from "../offered-instance-type.ts";
import { machineMemoryBytes } from "../overhead.ts";
import { customType } from "./custom-type.ts";
import { takeInOrder } from "./lazy-heap.ts";
import { rankInstanceTypes, type Candidate } from "./rank-instance-types.ts";
import type { InstanceTypeRequest } from "./request.ts";

const GiB = 2 ** 30;
const launchType = fc.constantFrom("on-demand", "spot");
const zone = fc.constantFrom("z1", "z2");
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const offers: fc.Arbitrary<readonly OfferedInstanceType[]> = fc.uniqueArray(
  fc.record({
    name: fc.string({ minLength: 1, maxLength: 3 }),
    cpuMilli: fc.nat(8),
    memoryBytes: fc.nat(8),
    gpus: fc.nat(1),
    pricePerHour: fc.record({ "on-demand": fc.nat(3), spot: fc.nat(3) }, { requiredKeys: [] }),
    architecture: maybe(fc.constantFrom("amd64" as const, "arm64" as const)),
    burst: maybe(fc.record({ baselineCpuMilli: fc.nat(8), pricePerCpuHour: maybe(fc.nat(900)) })),
    zones: maybe(fc.uniqueArray(zone)),
  }),
  { maxLength: 12, selector: ({ name }) => name },
);
const request: fc.Arbitrary<InstanceTypeRequest> = fc.record({
  cpuMilli: fc.nat(8),
  sustainedCpuMilli: maybe(fc.nat(8)),
  memoryBytes: fc.nat(8),
  gpus: fc.nat(1),
  architectures: maybe(fc.constantFrom(["arm64"], ["amd64", "arm64"])),
  launchTypes: fc.uniqueArray(launchType, { minLength: 1 }),
  zones: maybe(fc.uniqueArray(zone, { minLength: 1 })),
  unavailable: fc.array(fc.record({ zone: maybe(zone), launchType: maybe(launchType) }), {
    maxLength: 1,
  }),
});

/** Prices of all types that fit, by the interface's documentation alone. */
function bruteForce(types: readonly OfferedInstanceType[], asked: InstanceTypeRequest): number[] {
  const prices: number[] = [];
  for (const type of types)
    for (const market of asked.launchTypes) {
      const price = type.pricePerHour[market];
      const sustained = asked.sustainedCpuMilli ?? asked.cpuMilli;
      const used = Math.min(sustained, type.cpuMilli);
      const above = type.burst ? Math.max(0, used - type.burst.baselineCpuMilli) : 0;
      const perMilli = type.burst?.pricePerCpuHour ?? (above > 0 ? Infinity : 0);
      const zones = (asked.zones ?? type.zones ?? ["?"]).filter(
        (name) => name === "?" || (type.zones ?? [name]).includes(name),
      );
      const open = zones.filter(
        (name) =>
          !(asked.unavailable ?? []).some(
            (each) => (each.zone ?? name) === name && (each.launchType ?? market) === market,
          ),
      );
      const fits =
        price !== undefined &&
        type.cpuMilli >= asked.cpuMilli &&
        type.memoryBytes >= asked.memoryBytes &&
        (asked.gpus > 0 ? type.gpus >= asked.gpus : type.gpus === 0) &&
        (asked.architectures ?? ["amd64"]).includes(type.architecture ?? "amd64") &&
        open.length > 0;
      const total = (price ?? 0) + (above > 0 ? (above * perMilli) / 1000 : 0);
      if (fits && Number.isFinite(total)) prices.push(total);
    }
  return prices.sort((a, b) => a - b);
}

describe("rankInstanceTypes()", () => {
  it("agrees with brute force, from the first to the last", () => {
    fc.assert(
      fc.property(offers, request, (types, asked) => {
        const ranked = [...rankInstanceTypes({ types }, asked)].map((each) => each.pricePerHour);
        const expected = bruteForce(types, asked);
        assert.equal(ranked.length, expected.length);
        for (const [index, price] of ranked.entries())
          assert.ok(Math.abs(price - (expected[index] ?? Number.NaN)) < 1e-9);
      }),
      { numRuns: 2000 },
    );
  });

  it("gives each choice once, in an order that does not depend on that of the offers", () => {
    fc.assert(
      fc.property(offers, request, (types, asked) => {
        const names = (list: readonly OfferedInstanceType[]): readonly string[] =>
          [...rankInstanceTypes({ types: list }, asked)].map(
            (each: Candidate) => `${each.type.name} ${each.launchType}`,
          );
        const found = names(types);
        assert.equal(new Set(found).size, found.length);
        assert.deepEqual(names([...types].reverse()), found);
      }),
    );
  });

  it("looks at each of 1,400 types a few times at most, and orders no more than is taken", () => {
    let looked = 0;
    const types = Array.from({ length: 1400 }, (_, index) => ({
      name: `type-${index}`,
      cpuMilli: 1000,
      gpus: 0,
      pricePerHour: { "on-demand": (index * 7919) % 1400 },
      get memoryBytes() {
        looked += 1;
        return 1;
      },
    }));
    const asked = { cpuMilli: 1, memoryBytes: 1, gpus: 0, launchTypes: ["on-demand"] };
    const [best] = rankInstanceTypes({ types }, asked);
    assert.equal(best?.pricePerHour, 0);
    assert.ok(looked <= 2 * types.length, `${looked} looks`);
  });
});

describe("takeInOrder()", () => {
  it("is the sorted order, with at most 2n comparisons before the first item and 2 log2(n) for each further one", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50), { maxLength: 200 }), (items) => {
        let count = 0;
        const compare = (a: number, b: number): number => {
          count += 1;
          return a - b;
        };
        const taken: number[] = [];
        const perItem = 2 * Math.ceil(Math.log2(items.length + 1));
        for (const item of takeInOrder(items, compare)) {
          taken.push(item);
          assert.ok(count <= 2 * items.length + taken.length * perItem, `${count}`);
        }
        assert.deepEqual(
          taken,
          [...items].sort((a, b) => a - b),
        );
      }),
    );
  });
});

describe("customType()", () => {
  const family: CustomFamily = {
    name: "n2",
    namePrefix: "n2-custom",
    cpus: [2, 4, 6, 8],
    minMemoryPerCpu: GiB / 2,
    maxMemoryPerCpu: 8 * GiB,
    memoryStep: GiB / 4,
    architecture: "amd64",
    pricePerHour: { "on-demand": { perCpu: 0.03, perGiB: 0.004 } },
  };
  const ask = { gpus: 0, launchTypes: ["on-demand"] };

  it("is the cheapest of all machines of the family that fit", () => {
    fc.assert(
      fc.property(fc.nat(9000), fc.nat(70 * 1024), (cpuMilli, mib) => {
        const memoryBytes = mib * 2 ** 20;
        const machine = machineMemoryBytes(memoryBytes);
        const prices: number[] = [];
        for (const cpus of family.cpus)
          for (let memory = cpus * 2; memory <= cpus * 32; memory++)
            if (cpus * 1000 >= cpuMilli && (memory * GiB) / 4 >= machine)
              prices.push(cpus * 0.03 + (memory / 4) * 0.004);
        const asked = { ...ask, cpuMilli, memoryBytes };
        const [best] = rankInstanceTypes({ types: [], families: [family] }, asked);
        if (prices.length === 0) return assert.equal(best, undefined);
        return assert.ok(Math.abs((best?.pricePerHour ?? NaN) - Math.min(...prices)) < 1e-9);
      }),
    );
  });

  it("is the one of a name, if the cloud sells it", () => {
    const named = (typeGlob: string) =>
      customType(family, { ...ask, cpuMilli: 0, memoryBytes: 0, typeGlob })?.name;
    assert.equal(named("n2-custom-4-8192"), "n2-custom-4-8192");
    for (const name of [
      "n2-custom-3-8192",
      "n2-custom-4-8000",
      "n2-custom-4-65536",
      "custom-4-8192",
    ])
      assert.equal(named(name), undefined);
  });
});
