import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";

import { InstanceTypeError } from "../errors.ts";
import type { OfferedInstanceType } from "../offered-instance-type.ts";
import { rankInstanceTypes } from "../selection/rank-instance-types.ts";
import { selectInstanceType } from "../selection/select-instance-type.ts";
import type { InstanceTypeRequest } from "../selection/request.ts";
import { catalogClouds, catalogRegions, openCatalog } from "./open-catalog.ts";

const GiB = 2 ** 30;
const type = (cloud: string, region: string, name: string) => {
  const found = openCatalog(cloud, region).types.find((each) => each.name === name);
  assert.ok(found, name);
  return found;
};

describe("openCatalog()", () => {
  it("has types and prices of all regions, each of which can be chosen from", () => {
    for (const cloud of catalogClouds)
      for (const region of catalogRegions(cloud)) {
        const { types, pricesOf } = openCatalog(cloud, region);
        assert.match(pricesOf ?? "", /^202\d-\d\d-\d\d$/);
        assert.ok(types.length > 50, `${region}: ${types.length}`);
        for (const { name, cpuMilli, memoryBytes, pricePerHour } of types) {
          const { "on-demand": price = 0, spot = price } = pricePerHour;
          const isSane = cpuMilli >= 1000 && memoryBytes > 0 && spot > 0 && spot <= price;
          assert.ok(isSane, `${region} ${name}`);
        }
      }
  });

  it("has what the sources say of some types", () => {
    const nano = type("aws", "us-east-1", "t3.nano");
    assert.deepEqual(nano.pricePerHour, {
      "on-demand": 0.0052,
      spot: 0.001092,
      dedicated: 0.0052,
    });
    assert.deepEqual(nano.burst, {
      baselineCpuMilli: 100,
      pricePerCpuHour: 0.05,
      cappedFor: ["dedicated"],
    });
    assert.equal(type("aws", "us-east-1", "t4g.nano").architecture, "arm64");
    const { gpus, gpuModel } = type("aws", "us-east-1", "g4dn.xlarge");
    assert.deepEqual([gpus, gpuModel?.name, gpuModel?.memoryBytes], [1, "t4", 16 * GiB]);
    assert.equal(type("aws", "eu-central-1", "i3.large").localDiskBytes, 475e9);
    assert.equal(type("azure", "eastus", "Standard_B1ls").onlyIfNamed, "of a previous generation");
    assert.equal(type("azure", "eastus", "Standard_D2ps_v6").architecture, "arm64");
    assert.equal(type("gce", "us-central1", "e2-micro").burst?.baselineCpuMilli, 250);
    const attached = type("gce", "us-central1", "n1-standard-4+2xnvidia-tesla-t4");
    assert.deepEqual([attached.gpus, attached.gpuModel?.name], [2, "t4"]);
  });

  it("takes a zone of GCE, and the display name of an Azure location", () => {
    assert.equal(openCatalog("gce", "europe-west1-b").region, "europe-west1");
    assert.equal(openCatalog("azure", "East US").region, "eastus");
  });

  it("refuses what it does not have, with the nearest name", () => {
    for (const [cloud, region, remedy] of [
      [
        "aws",
        "us-esat-1",
        /^Did you mean us-east-1\? For another region, give --instance-data-path/,
      ],
      ["aws", "cn-north-1", /--instance-data-path with a file of its prices/],
      ["gcp", "us-central1", "Did you mean gce?"],
      ["aws", "../../gce/regions/us-central1", /^It has af-south-1/],
    ] as const)
      assert.throws(
        () => openCatalog(cloud, region),
        (error) =>
          InstanceTypeError.is(error, "CATALOG_UNKNOWN") &&
          (typeof remedy === "string" ? error.remedy === remedy : remedy.test(error.remedy ?? "")),
      );
  });
});

describe("openCatalog() with selectInstanceType()", () => {
  const chosen = (cloud: string, region: string, request: Partial<InstanceTypeRequest>) =>
    selectInstanceType(openCatalog(cloud, region), {
      cpuMilli: 500,
      memoryBytes: GiB,
      gpus: 0,
      launchTypes: ["on-demand"],
      ...request,
    });

  it("finds GPUs by kind in each cloud", () => {
    const gpu = { gpus: 1, gpuKinds: ["nvidia-tesla-t4"] };
    assert.equal(chosen("aws", "us-east-1", gpu).type.name, "g4dn.xlarge");
    assert.equal(chosen("azure", "eastus", gpu).type.gpuModel?.name, "t4");
    assert.match(chosen("gce", "us-central1", gpu).type.name, /^n1-.*\+1xnvidia-tesla-t4$/);
  });

  it("makes a custom size where that is cheaper", () => {
    const { type: made, pricePerHour } = chosen("gce", "us-central1", {
      cpuMilli: 2000,
      memoryBytes: 11 * GiB,
    });
    assert.equal(made.name, "e2-custom-2-12288");
    assert.equal(pricePerHour.toFixed(5), "0.08260");
  });

  it("takes dedicated tenancy of AWS at the on-demand price, but not of types that are not sold so", () => {
    const dedicated = chosen("aws", "us-east-1", { launchTypes: ["dedicated"] });
    assert.deepEqual([dedicated.type.name, dedicated.pricePerHour], ["c7a.medium", 0.05132]);
    for (const name of ["t2.small", "t3a.small", "t4g.small"])
      assert.equal(type("aws", "us-east-1", name).pricePerHour["dedicated"], undefined, name);
    assert.throws(() => chosen("gce", "us-central1", { launchTypes: ["dedicated"] }), {
      code: "NO_INSTANCE_TYPE_FITS",
    });
  });

  it("takes T3 as dedicated instances up to its baseline, as EC2 has it so in standard mode alone", () => {
    const small = { memoryBytes: GiB / 4, cpuMilli: 2000, launchTypes: ["dedicated"] };
    const idle = chosen("aws", "us-east-1", { ...small, sustainedCpuMilli: 100 });
    assert.deepEqual([idle.type.name, idle.pricePerHour], ["t3.nano", 0.0052]);
    const busy = chosen("aws", "us-east-1", { ...small, sustainedCpuMilli: 101 });
    assert.deepEqual([busy.type.name, busy.pricePerHour], ["t3.micro", 0.0104]);
    const named = chosen("aws", "us-east-1", { ...small, typeGlob: "t3.nano" });
    assert.equal(named.pricePerHour, 0.0052);
    // With both launch types: CPU above the baseline is bought on demand.
    const both = { ...small, sustainedCpuMilli: 110, launchTypes: ["dedicated", "on-demand"] };
    const { launchType, type: taken } = chosen("aws", "us-east-1", { ...both, typeGlob: "t3.n*" });
    assert.deepEqual([launchType, taken.name], ["on-demand", "t3.nano"]);
  });

  it("takes spot prices where there are some", () => {
    const spot = chosen("aws", "us-east-1", { launchTypes: ["spot"] });
    assert.ok(spot.pricePerHour < chosen("aws", "us-east-1", {}).pricePerHour);
    assert.throws(() => chosen("azure", "eastus", { launchTypes: ["spot"] }), {
      code: "NO_INSTANCE_TYPE_FITS",
    });
  });
});

describe("selectInstanceType(), of the built-in list", () => {
  const kinds = fc.constantFrom([], ["nvidia-tesla-t4"], ["a100"], ["l4"], ["v100-16gb"]);
  const architectures: fc.Arbitrary<readonly string[] | undefined> = fc.constantFrom(
    undefined,
    ["arm64"],
    ["amd64", "arm64"],
  );
  const request = fc.record({
    cpuMilli: fc.integer({ min: 0, max: 70_000 }),
    sustainedCpuMilli: fc.integer({ min: 0, max: 4000 }),
    memoryBytes: fc.integer({ min: 0, max: 300 }).map((gib) => gib * GiB),
    gpus: fc.constantFrom(0, 0, 0, 1, 2),
    gpuKinds: kinds,
    architectures,
    launchTypes: fc.constantFrom(["on-demand"], ["spot"], ["spot", "on-demand"]),
  });
  /**
   * The lowest price of all types that fit, by the rules of docs/instance-selection.md alone. Custom sizes have their own test.
   */
  const lowest = (
    types: readonly OfferedInstanceType[],
    asked: typeof request extends fc.Arbitrary<infer T> ? T : never,
  ) => {
    const prices = types.flatMap((each) => {
      const { burst, gpuModel: gpu } = each;
      const above = burst ? Math.max(0, asked.sustainedCpuMilli - burst.baselineCpuMilli) : 0;
      const isPlain = asked.gpus === 0 && asked.gpuKinds.length === 0;
      const names = [gpu?.name, `${gpu?.name}-${(gpu?.memoryBytes ?? 0) / GiB}gb`];
      const hasGpus =
        gpu?.manufacturer === "nvidia" &&
        gpu.isSlice !== true &&
        each.gpus >= Math.max(1, asked.gpus) &&
        asked.gpuKinds.every((kind) => names.includes(kind.replace("nvidia-tesla-", "")));
      const fits =
        each.onlyIfNamed === undefined &&
        each.cpuMilli >= asked.cpuMilli &&
        each.memoryBytes >= asked.memoryBytes &&
        (asked.architectures ?? ["amd64"]).includes(each.architecture ?? "amd64") &&
        (isPlain ? each.gpus === 0 : hasGpus) &&
        (above === 0 || burst?.pricePerCpuHour !== undefined);
      if (!fits) return [];
      const extra = (above / 1000) * (burst?.pricePerCpuHour ?? 0);
      return asked.launchTypes.flatMap((name) => {
        const price = each.pricePerHour[name];
        return price === undefined ? [] : [price + extra];
      });
    });
    return prices.length === 0 ? undefined : Math.min(...prices);
  };

  for (const [cloud, region] of [
    ["aws", "us-east-1"],
    ["gce", "us-central1"],
    ["azure", "eastus"],
  ] as const)
    it(`agrees with brute force over all types of ${cloud}`, () => {
      const { types } = openCatalog(cloud, region);
      fc.assert(
        fc.property(request, (asked) => {
          const [best] = rankInstanceTypes({ types }, asked);
          const expected = lowest(types, asked);
          if (expected === undefined) return assert.equal(best, undefined);
          return assert.ok(Math.abs((best?.pricePerHour ?? NaN) - expected) < 1e-9);
        }),
        { numRuns: 200 },
      );
    });
});
