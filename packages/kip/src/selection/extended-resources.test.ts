import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { InstanceTypeOffer } from "@kip/cloud";
import { podWith } from "@kip/k8s-types/testing";
import {
  isExtendedResource,
  mostResources,
  offersWithResources,
  resourcesOfType,
} from "./extended-resources.ts";

const configured = {
  "acc.*": { "example.com/nic": "1" },
  "acc.large": { "example.com/nic": "2", "example.com/card": "4" },
};
const offers = ["acc.small", "acc.large", "plain"].map((name): InstanceTypeOffer => {
  const gpus = name === "plain" ? 0 : 1;
  return { name, cpuMilli: 1000, memoryBytes: 2 ** 30, gpus, pricePerHour: { "on-demand": 1 } };
});

function fitting(resources: Readonly<Record<string, string>>): readonly string[] {
  const containers = [{ name: "c", resources: { limits: resources, requests: resources } }];
  return offersWithResources(offers, podWith({ spec: { containers } }), configured).map(
    ({ name }) => name,
  );
}

describe("isExtendedResource()", () => {
  it("has a domain that is not Kubernetes' own", () => {
    const names = [
      "example.com/nic",
      "cpu",
      "hugepages-2Mi",
      "kubernetes.io/x",
      "a.kubernetes.io/x",
    ];
    assert.deepEqual(names.filter(isExtendedResource), ["example.com/nic"]);
  });
});

describe("resourcesOfType()", () => {
  it("joins all patterns that match", () => {
    const large = resourcesOfType(configured, "acc.large");
    assert.deepEqual(
      [...large],
      [
        ["example.com/nic", 2],
        ["example.com/card", 4],
      ],
    );
    assert.equal(resourcesOfType(configured, "plain").size, 0);
  });
});

describe("offersWithResources()", () => {
  it("leaves the types that have enough of each resource", () => {
    assert.deepEqual(fitting({ "example.com/nic": "1" }), ["acc.small", "acc.large"]);
    assert.deepEqual(fitting({ "example.com/nic": "2" }), ["acc.large"]);
    assert.deepEqual(fitting({ "example.com/nic": "1", "example.com/card": "1" }), ["acc.large"]);
  });

  it("leaves all types to a pod that asks for none of these resources", () => {
    assert.equal(
      fitting({ cpu: "1", "other.example.com/x": "9", "nvidia.com/gpu": "9" }).length,
      3,
    );
  });

  it("says what no type has", () => {
    assert.throws(() => fitting({ "example.com/card": "5" }), {
      code: "NO_INSTANCE_TYPE_FITS",
      message: "Cannot find an instance type for 5 example.com/card: no type on offer has so many",
    });
  });
});

describe("mostResources()", () => {
  it("is the most that one type has, GPUs too", () => {
    assert.deepEqual(mostResources(offers, configured), {
      "nvidia.com/gpu": "1",
      "example.com/nic": "2",
      "example.com/card": "4",
    });
    assert.deepEqual(mostResources([], configured), {});
  });
});
