import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { InstanceTypeError } from "../errors.ts";
import type { OfferedInstanceType } from "../offered-instance-type.ts";
import type { InstanceTypeRequest } from "./request.ts";
import { selectInstanceType } from "./select-instance-type.ts";

const GiB = 2 ** 30;
const offer = (
  name: string,
  cores: number,
  gib: number,
  price: number | undefined,
  more: Partial<OfferedInstanceType> = {},
): OfferedInstanceType => ({
  name,
  cpuMilli: cores * 1000,
  memoryBytes: gib * GiB,
  gpus: 0,
  pricePerHour: price === undefined ? {} : { "on-demand": price },
  ...more,
});
const ask = { cpuMilli: 500, memoryBytes: GiB, gpus: 0, launchTypes: ["on-demand"] };
const select = (
  types: readonly OfferedInstanceType[],
  request: Partial<InstanceTypeRequest> = {},
) => selectInstanceType({ types }, { ...ask, ...request });
const nameOf = (...args: Parameters<typeof select>): string => select(...args).type.name;

function isRefused(message: RegExp, ...args: Parameters<typeof select>): void {
  assert.throws(
    () => select(...args),
    (error) => InstanceTypeError.is(error, "NO_INSTANCE_TYPE_FITS") && message.test(error.message),
  );
}

describe("selectInstanceType()", () => {
  it("takes the cheapest that fits", () => {
    const offers = [offer("big", 8, 32, 0.4), offer("fit", 2, 4, 0.1), offer("tiny", 1, 0.5, 0.01)];
    assert.equal(nameOf(offers), "fit");
  });

  it("takes the smallest of equal prices, then the first by name", () => {
    const offers = [offer("c", 4, 8, 0), offer("b", 1, 1, 0), offer("a", 1, 1, 0)];
    assert.equal(nameOf(offers), "a");
  });

  it("knows only types of the launch types asked for, and takes the cheapest of these", () => {
    const offers = [offer("free", 4, 8, undefined), offer("paid", 4, 8, 1)];
    assert.equal(nameOf(offers), "paid");
    const spot = offer("spot", 4, 8, 2, { pricePerHour: { "on-demand": 2, spot: 0.5 } });
    const { type, launchType } = select([...offers, spot], { launchTypes: ["spot", "on-demand"] });
    assert.deepEqual([type.name, launchType], ["spot", "spot"]);
  });

  it("buys no more above the baseline than a type that is named has cores", () => {
    const burst = { baselineCpuMilli: 100, pricePerCpuHour: 0.05 };
    const named = { typeGlob: "nano", cpuMilli: 0, memoryBytes: 0, sustainedCpuMilli: 3000 };
    const { burstPricePerHour } = select([offer("nano", 2, 0.5, 0.005, { burst })], named);
    assert.equal(burstPricePerHour.toFixed(3), "0.095");
  });

  it("keeps to the glob, in which a dot is a dot", () => {
    const offers = [offer("t3axlarge", 4, 8, 0), offer("t3.large", 4, 8, 1)];
    assert.equal(nameOf(offers, { typeGlob: "t3.*" }), "t3.large");
  });

  it("takes a glob of many stars in linear time", () => {
    const typeGlob = `${"*".repeat(200)}${"*l".repeat(20)}z`;
    assert.throws(() => select([offer("local.small", 1, 1, 0)], { typeGlob }), {
      code: "NO_INSTANCE_TYPE_FITS",
    });
  });

  it("keeps previous generations and the like for pods that name them", () => {
    const old = offer("m1.small", 4, 8, 0.01, { onlyIfNamed: "of a previous generation" });
    const offers = [old, offer("m5.large", 4, 8, 1)];
    assert.equal(nameOf(offers), "m5.large");
    assert.equal(nameOf(offers, { typeGlob: "m1.*" }), "m1.small");
  });

  it("takes amd64 unless asked for another processor", () => {
    const offers = [offer("t4g", 4, 8, 0.1, { architecture: "arm64" }), offer("t3", 4, 8, 1)];
    assert.equal(nameOf(offers), "t3");
    assert.equal(nameOf(offers, { architectures: ["arm64"] }), "t4g");
    assert.equal(nameOf(offers, { architectures: ["amd64", "arm64"] }), "t4g");
    isRefused(/: all on offer are amd64 or arm64, and not s390x$/, offers, {
      architectures: ["s390x"],
    });
    isRefused(/different processors$/, offers, { architectures: [] });
  });
});

describe("selectInstanceType(), of types of another processor", () => {
  const offers = [offer("t4g.small", 2, 2, 0.1, { architecture: "arm64" }), offer("t3", 4, 8, 1)];

  it("takes one that is named in full", () => {
    assert.equal(
      nameOf(offers, { cpuMilli: 0, memoryBytes: 0, typeGlob: "t4g.small" }),
      "t4g.small",
    );
  });

  it("says so where the pod asks for another, or names a pattern", () => {
    for (const request of [
      { typeGlob: "t4g.*" },
      { typeGlob: "t4g.small", architectures: ["amd64"] },
    ])
      isRefused(/: those of that name are arm64, and not amd64$/, offers, request);
    assert.throws(() => select(offers, { typeGlob: "t4g.*" }), {
      remedy: /^Ask for arm64 with the annotation pod\.elotl\.co\/architecture/,
    });
  });
});

describe("selectInstanceType(), of burstable types", () => {
  const sold = { baselineCpuMilli: 200, pricePerCpuHour: 0.05 };

  it("adds what is needed above the baseline to the price", () => {
    const offers = [offer("burst", 2, 1, 0.01, { burst: sold }), offer("steady", 2, 4, 0.04, {})];
    const some = select(offers, { sustainedCpuMilli: 400 });
    assert.deepEqual([some.type.name, some.pricePerHour.toFixed(3)], ["burst", "0.020"]);
    assert.equal(select(offers, { sustainedCpuMilli: 100 }).pricePerHour, 0.01);
    assert.equal(nameOf(offers, { cpuMilli: 1000, sustainedCpuMilli: 900 }), "steady");
    assert.equal(nameOf(offers, { cpuMilli: 1000 }), "steady");
  });

  it("takes none that cannot keep up where more is not sold", () => {
    const capped = offer("capped", 2, 1, 0.01, { burst: { baselineCpuMilli: 200 } });
    assert.equal(nameOf([capped, offer("steady", 2, 4, 0.04)]), "steady");
    assert.equal(nameOf([capped], { sustainedCpuMilli: 200 }), "capped");
  });

  it("takes one that is named, and adds to its price", () => {
    const named = { cpuMilli: 0, memoryBytes: 0, sustainedCpuMilli: 1200, typeGlob: "burst" };
    const capped = offer("burst", 2, 1, 0.01, { burst: { baselineCpuMilli: 200 } });
    assert.equal(nameOf([capped], named), "burst");
    const { pricePerHour } = select([offer("burst", 2, 1, 0.01, { burst: sold })], named);
    assert.equal(pricePerHour.toFixed(3), "0.060");
  });
});

describe("selectInstanceType(), of GPUs", () => {
  const t4 = { manufacturer: "nvidia", name: "t4", memoryBytes: 16 * GiB } as const;
  const a100 = { ...t4, name: "a100", memoryBytes: 80 * GiB };
  const offers = [
    offer("plain", 4, 8, 0.3),
    offer("slice", 4, 8, 0.1, { gpus: 1, gpuModel: { ...t4, isSlice: true } }),
    offer("radeon", 4, 8, 0.2, { gpus: 1, gpuModel: { ...t4, manufacturer: "amd", name: "v520" } }),
    offer("g4", 4, 8, 0.5, { gpus: 1, gpuModel: t4 }),
    offer("p4", 96, 800, 30, { gpus: 8, gpuModel: a100 }),
  ];

  it("gives whole GPUs of the maker, and none to pods that ask for none", () => {
    assert.equal(nameOf(offers), "plain");
    assert.equal(nameOf(offers, { gpus: 1 }), "g4");
    assert.equal(nameOf(offers, { gpus: 2 }), "p4");
    assert.equal(nameOf(offers, { gpus: 1, gpuManufacturer: "amd" }), "radeon");
    assert.equal(nameOf(offers, { gpus: 1, typeGlob: "sl*" }), "slice");
  });

  it("gives the kind that is named, one where no number is", () => {
    for (const kind of ["a100", "nvidia-a100-80gb", "NVIDIA-A100"])
      assert.equal(nameOf(offers, { gpus: 1, gpuKinds: [kind] }), "p4");
    assert.equal(nameOf(offers, { gpuKinds: ["nvidia-tesla-t4"] }), "g4");
    isRefused(/"a100-40gb": GPUs on offer are a100 \(up to 8\), t4 \(up to 1\)$/, offers, {
      gpus: 1,
      gpuKinds: ["a100-40gb"],
    });
  });
});

describe("selectInstanceType(), where nothing is left", () => {
  it("says what was asked and what the biggest type has", () => {
    isRefused(
      /for 64 CPU, 1Gi memory: the biggest on offer is local.small \(1 CPU, 1Gi memory\)/,
      [offer("local.small", 1, 1, 0)],
      { cpuMilli: 64_000 },
    );
  });

  it("says of a Mac that it needs a dedicated host, and names no other type", () => {
    const mac = { cpuMilli: 0, memoryBytes: 0, typeGlob: "mac1.metal", launchTypes: ["dedicated"] };
    const dedicated = { pricePerHour: { dedicated: 0.4 } };
    for (const type of [offer("a1.metal", 16, 32, 0, dedicated), offer("mac1.metal", 12, 32, 1)])
      assert.throws(() => select([type], mac), {
        message: /type "mac1\.metal", launch type dedicated: Macs only run on dedicated hosts/,
        remedy: /^Choose another type/,
      });
    assert.equal(nameOf([offer("mac1.metal", 12, 32, 0, dedicated)], mac), "mac1.metal");
  });

  it("says so when a name matches nothing, and names the nearest", () => {
    const offers = [offer("local.small", 1, 1, 0)];
    isRefused(/type "m5\.\*": no type of that name and launch type is on offer/, offers, {
      typeGlob: "m5.*",
    });
    assert.throws(() => select(offers, { typeGlob: "local.smal" }), {
      remedy: /Did you mean local\.small/,
    });
  });

  it("leaves out what is unavailable, by type, zone and launch type, and may be asked again", () => {
    const both = { pricePerHour: { "on-demand": 1, spot: 0.3 } };
    const offers = [offer("a", 2, 4, 1, both), offer("b", 2, 4, 2)];
    const request = { launchTypes: ["spot", "on-demand"], zones: ["z1", "z2"] };
    const left = (...unavailable: NonNullable<InstanceTypeRequest["unavailable"]>) => {
      const { type, launchType, zones } = select(offers, { ...request, unavailable });
      return [type.name, launchType, zones?.join()];
    };
    assert.deepEqual(left(), ["a", "spot", "z1,z2"]);
    assert.deepEqual(left({ instanceType: "a", zone: "z1" }), ["a", "spot", "z2"]);
    assert.deepEqual(left({ launchType: "spot" }), ["a", "on-demand", "z1,z2"]);
    assert.deepEqual(left({ instanceType: "a" }), ["b", "on-demand", "z1,z2"]);
    assert.throws(() => left({ zone: "z1" }, { zone: "z2" }), {
      message: /the cloud has none left of the 2 types that fit/,
      retryable: true,
    });
  });
});
