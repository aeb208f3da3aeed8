import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";

import { openCatalog } from "../catalog/open-catalog.ts";
import { InstanceTypeError } from "../errors.ts";
import { podMemoryBytes } from "../overhead.ts";
import { selectInstanceType } from "../selection/select-instance-type.ts";

const folder = mkdtempSync(path.join(tmpdir(), "kip-prices-"));
after(() => rmSync(folder, { recursive: true }));
const priceFile = path.join(folder, "prices.json");

function open(content: unknown, region = "us-east-1", cloud = "aws") {
  writeFileSync(priceFile, typeof content === "string" ? content : JSON.stringify(content));
  return openCatalog(cloud, region, { priceFile });
}

const ask = { cpuMilli: 500, memoryBytes: 2 ** 30, gpus: 0, launchTypes: ["on-demand"] };

describe("openCatalog() with a price file", () => {
  it("replaces single prices, and takes types from the offer", () => {
    const catalog = open({
      "us-east-1": { "m5.large": { price: 0.001, spotPrice: 0.0005 }, "t3a.small": null },
    });
    const { type, pricePerHour } = selectInstanceType(catalog, ask);
    assert.deepEqual([type.name, pricePerHour], ["m5.large", 0.001]);
    assert.equal(
      catalog.types.find(({ name }) => name === "t3a.small"),
      undefined,
    );
    assert.equal(catalog.types.length, openCatalog("aws", "us-east-1").types.length - 1);
    assert.deepEqual([catalog.pricesOf, catalog.priceFile], ["2026-07-20", priceFile]);
  });

  it("replaces prices of custom sizes", () => {
    const prices = { "n2-custom": { pricePerCPU: 0.0001, pricePerGBOfMemory: 0.0001 } };
    const { type } = selectInstanceType(
      open({ "us-central1": prices }, "us-central1-a", "gce"),
      ask,
    );
    assert.match(type.name, /^n2-custom-2-/);
  });

  it("takes a list in the original's form in the place of a region, with what it knows of its types", () => {
    const entry = { cpu: 2, memory: 8, gpu: 0, supportedGPUTypes: {}, burstable: false };
    const catalog = open({
      "us-east-1": [
        { ...entry, instanceType: "t4g.large", price: 0.01, burstable: true, baseline: 0.6 },
        {
          ...entry,
          instanceType: "m99.large",
          price: 0.02,
          spotPrice: 0.01,
          generation: "current",
        },
        { ...entry, instanceType: "gone.large", price: 0 },
      ],
    });
    assert.deepEqual(
      catalog.types.map(({ name }) => name),
      ["t4g.large", "m99.large"],
    );
    assert.equal(catalog.types[0]?.architecture, "arm64");
    const { type } = selectInstanceType(catalog, ask);
    assert.deepEqual([type.name, type.memoryBytes], ["m99.large", podMemoryBytes(8 * 2 ** 30)]);
    assert.equal(catalog.pricesOf, undefined);
  });

  it("takes a list of a region that kip does not know", () => {
    const entry = { instanceType: "t2.small", cpu: 1, memory: 2, price: 0.03 };
    assert.equal(open({ "cn-north-1": [entry] }, "cn-north-1").types.length, 1);
  });

  it("knows the types of such a region, and has those on offer that the file has a price of", () => {
    const arm = { instanceType: "t4g.small", cpu: 2, memory: 2, price: 0.03 };
    const [type, ...others] = open({ "cn-north-1": [arm] }, "cn-north-1").types;
    assert.deepEqual([type?.architecture, type?.burst?.baselineCpuMilli], ["arm64", 400]);
    assert.deepEqual(others, []);
    const prices = { "m5.large": { price: 0.12 }, "t4g.small": null };
    const catalog = open({ "ap-east-2": prices }, "ap-east-2");
    assert.deepEqual(
      catalog.types.map(({ name, cpuMilli, pricePerHour }) => [name, cpuMilli, pricePerHour]),
      [["m5.large", 2000, { "on-demand": 0.12, dedicated: 0.12 }]],
    );
    assert.deepEqual([catalog.region, catalog.pricesOf], ["ap-east-2", undefined]);
  });

  it("has prices of dedicated tenancy, where 0 takes a type from that offer", () => {
    const prices = {
      "m5.large": { price: 0.1, dedicatedPrice: 0.11 },
      "m5.xlarge": { price: 0.2, dedicatedPrice: 0 },
    };
    const { types } = open({ "us-east-1": prices });
    const of = (name: string) => types.find((each) => each.name === name)?.pricePerHour;
    assert.deepEqual(of("m5.large"), { "on-demand": 0.1, dedicated: 0.11 });
    assert.deepEqual(of("m5.xlarge"), { "on-demand": 0.2 });
  });

  const bad: readonly (readonly [
    what: string,
    content: unknown,
    message: RegExp,
    remedy: RegExp,
  ])[] = [
    ["what is not JSON", "{", /prices\.json: it is not valid JSON$/, /JSON/],
    ["a list", [], /an object expected, got a list/, /regions/],
    ["a file without the region", { "us-esat-1": {} }, /no region "us-east-1"/, /us-esat-1/],
    [
      "an unknown type",
      { "us-east-1": { "m5.lareg": { price: 1 } } },
      /no type "m5\.lareg"/,
      /Did you mean m5\.large/,
    ],
    [
      "a price that is none",
      { "us-east-1": { "m5.large": { price: -1 } } },
      /"us-east-1\.m5\.large\.price": 0 to 1000000 expected/,
      /./,
    ],
    [
      "a wrong key of a list",
      { "us-east-1": [{ instanceType: "x", price: 1, cpu: 1, memroy: 1 }] },
      /"us-east-1\[0\]\.memroy": there is no such key/,
      /Did you mean "memory"/,
    ],
  ];
  for (const [what, content, message, remedy] of bad)
    it(`refuses ${what}, and does not go on with other prices`, () => {
      assert.throws(
        () => open(content),
        (error) =>
          InstanceTypeError.is(error, "PRICE_FILE_INVALID") &&
          message.test(error.message) &&
          remedy.test(error.remedy ?? ""),
      );
    });

  it("refuses a file that is not there", () => {
    assert.throws(() => openCatalog("aws", "us-east-1", { priceFile: "/nowhere/prices.json" }), {
      code: "PRICE_FILE_INVALID",
      message: /there is no such file$/,
    });
  });
});
