import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { InstanceTypeInfo } from "@aws-sdk/client-ec2";
import { builtInTypes } from "@kip/instance-types";
import { priceEntries, type RegionFacts } from "./price-entries.ts";

const known = new Map(builtInTypes("aws").map((type) => [type.name, type]));
const size: InstanceTypeInfo = {
  VCpuInfo: { DefaultVCpus: 4 },
  MemoryInfo: { SizeInMiB: 15_872 },
};

/** May have type names that the SDK does not know, like AWS' responses. */
type Type = Omit<InstanceTypeInfo, "InstanceType"> & { readonly InstanceType: string };

function entriesOf(type: Type, changes: Partial<RegionFacts> = {}) {
  const onDemand = new Map([[type.InstanceType, 0.5]]);
  const none = new Map<string, number>();
  const types = [{ ...size, ...type } as InstanceTypeInfo];
  const facts = { types, onDemand, dedicated: none, spot: none };
  return priceEntries({ ...facts, ...changes }, known);
}

describe("priceEntries()", () => {
  it("has size and all prices of a type", () => {
    const spot = new Map([["m5.xlarge", 0.2]]);
    const dedicated = new Map([["m5.xlarge", 0.6]]);
    assert.deepEqual(entriesOf({ InstanceType: "m5.xlarge" }, { spot, dedicated }), [
      {
        instanceType: "m5.xlarge",
        price: 0.5,
        spotPrice: 0.2,
        dedicatedPrice: 0.6,
        cpu: 4,
        memory: 15.5,
      },
    ]);
  });

  it("takes a type from the dedicated offer that has no such price, unless the region has none at all", () => {
    const dedicated = new Map([["m5.xlarge", 0.6]]);
    const type = { InstanceType: "t3a.nano" };
    assert.equal(entriesOf(type, { dedicated })[0]?.dedicatedPrice, 0);
    assert.equal(entriesOf(type)[0]?.dedicatedPrice, undefined);
  });

  it("has a type that is sold as spot alone, and none without any price", () => {
    const none = { onDemand: new Map<string, number>() };
    const spot = new Map([["m5.xlarge", 0.2]]);
    assert.deepEqual(
      entriesOf({ InstanceType: "m5.xlarge" }, { ...none, spot }).map(({ price }) => price),
      [0],
    );
    assert.deepEqual(entriesOf({ InstanceType: "m5.xlarge" }, none), []);
  });

  it("says of what kip does not know: processors and NVIDIA's GPUs", () => {
    const [entry] = entriesOf({
      InstanceType: "g99.xlarge",
      ProcessorInfo: { SupportedArchitectures: ["arm64"] },
      GpuInfo: { Gpus: [{ Name: "L99", Manufacturer: "NVIDIA", Count: 2 }] },
    });
    assert.deepEqual(
      [entry?.architecture, entry?.gpu, entry?.supportedGPUTypes],
      ["arm64", 2, { L99: 2 }],
    );
  });

  it("leaves out what a price file has no words for, unless kip knows the type", () => {
    const special: readonly Partial<InstanceTypeInfo>[] = [
      { BareMetal: true },
      { BurstablePerformanceSupported: true },
      { FpgaInfo: { TotalFpgaMemoryInMiB: 1 } },
      { NeuronInfo: {} },
      { GpuInfo: { Gpus: [{ Name: "V99", Manufacturer: "AMD", Count: 1 }] } },
    ];
    for (const each of special) {
      assert.deepEqual(entriesOf({ ...each, InstanceType: "x99.large" }), [], JSON.stringify(each));
      assert.equal(entriesOf({ ...each, InstanceType: "t3.large" }).length, 1);
    }
  });
});
