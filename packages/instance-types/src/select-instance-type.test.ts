import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";

import { InstanceTypeError } from "./errors.ts";
import { selectInstanceType, type OfferedInstanceType } from "./index.ts";

const GiB = 2 ** 30;
const offer = (
  name: string,
  cores: number,
  gib: number,
  price: number | undefined,
  gpus = 0,
): OfferedInstanceType => ({
  name,
  cpuMilli: cores * 1000,
  memoryBytes: gib * GiB,
  gpus,
  pricePerHour: price === undefined ? {} : { "on-demand": price },
});
const ask = { cpuMilli: 500, memoryBytes: GiB, gpus: 0, launchType: "on-demand" };

describe("selectInstanceType()", () => {
  it("takes the cheapest that fits", () => {
    const offers = [offer("big", 8, 32, 0.4), offer("fit", 2, 4, 0.1), offer("tiny", 1, 0.5, 0.01)];
    assert.equal(selectInstanceType(offers, ask).name, "fit");
  });

  it("takes the smallest of equal prices, then the first by name", () => {
    const offers = [offer("c", 4, 8, 0), offer("b", 1, 1, 0), offer("a", 1, 1, 0)];
    assert.equal(selectInstanceType(offers, ask).name, "a");
  });

  it("knows only types of the launch type asked for", () => {
    const offers = [offer("free", 4, 8, undefined), offer("paid", 4, 8, 1)];
    assert.equal(selectInstanceType(offers, ask).name, "paid");
  });

  it("keeps to the glob, in which a dot is a dot", () => {
    const offers = [offer("t3axlarge", 4, 8, 0), offer("t3.large", 4, 8, 1)];
    assert.equal(selectInstanceType(offers, { ...ask, typeGlob: "t3.*" }).name, "t3.large");
  });

  it("takes a glob of many stars in linear time", () => {
    const typeGlob = `${"*".repeat(200)}${"*l".repeat(20)}z`;
    assert.throws(() => selectInstanceType([offer("local.small", 1, 1, 0)], { ...ask, typeGlob }), {
      code: "NO_INSTANCE_TYPE_FITS",
    });
  });

  it("says what was asked and what the biggest type has", () => {
    assert.throws(
      () => selectInstanceType([offer("local.small", 1, 1, 0)], { ...ask, cpuMilli: 64_000 }),
      (error: unknown) =>
        InstanceTypeError.is(error, "NO_INSTANCE_TYPE_FITS") &&
        /for 64 CPU, 1Gi memory: the biggest on offer is local.small \(1 CPU, 1Gi memory\)/.test(
          String(error),
        ),
    );
  });

  it("says so when a name matches nothing", () => {
    assert.throws(
      () => selectInstanceType([offer("local.small", 1, 1, 0)], { ...ask, typeGlob: "m5.*" }),
      /type "m5\.\*": no type of that name and launch type is on offer/,
    );
  });

  it("agrees with brute force", () => {
    const offers = fc.array(
      fc.record({
        name: fc.string({ minLength: 1, maxLength: 3 }),
        cpuMilli: fc.nat(8),
        memoryBytes: fc.nat(8),
        gpus: fc.nat(1),
        pricePerHour: fc.record({ "on-demand": fc.nat(3) }, { requiredKeys: [] }),
      }),
      { maxLength: 12 },
    );
    const request = fc.record({ cpuMilli: fc.nat(8), memoryBytes: fc.nat(8), gpus: fc.nat(1) });
    fc.assert(
      fc.property(offers, request, (offers, request) => {
        const fitting = offers.filter(
          (o) =>
            o.pricePerHour["on-demand"] !== undefined &&
            o.cpuMilli >= request.cpuMilli &&
            o.memoryBytes >= request.memoryBytes &&
            o.gpus >= request.gpus,
        );
        const select = () => selectInstanceType(offers, { ...request, launchType: "on-demand" });
        if (fitting.length === 0) return assert.throws(select);
        const lowest = Math.min(...fitting.map((o) => o.pricePerHour["on-demand"] ?? Infinity));
        return assert.equal(select().pricePerHour["on-demand"], lowest);
      }),
    );
  });
});
