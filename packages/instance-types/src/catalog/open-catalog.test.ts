import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { InstanceTypeError } from "../errors.ts";
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
    assert.deepEqual(nano.pricePerHour, { "on-demand": 0.0052, spot: 0.001092 });
    assert.deepEqual(nano.burst, { baselineCpuMilli: 100, pricePerCpuHour: 0.05 });
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
      ["aws", "us-esat-1", "Did you mean us-east-1?"],
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

  it("takes spot prices where there are some", () => {
    const spot = chosen("aws", "us-east-1", { launchTypes: ["spot"] });
    assert.ok(spot.pricePerHour < chosen("aws", "us-east-1", {}).pricePerHour);
    assert.throws(() => chosen("azure", "eastus", { launchTypes: ["spot"] }), {
      code: "NO_INSTANCE_TYPE_FITS",
    });
  });
});
