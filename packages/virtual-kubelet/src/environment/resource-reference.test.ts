import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { hasResourceReference, resourceValue } from "./resource-reference.ts";

describe("resourceValue()", () => {
  const machine = { cpu: "1500m", memory: "1Gi" };

  it("shows the machine's size in place of a limit that is not set", () => {
    const container = { name: "main", resources: { limits: { memory: "64Mi" } } };
    assert.equal(resourceValue(container, { resource: "limits.cpu" }, machine), "2");
    const milli = { resource: "limits.cpu", divisor: "1m" };
    assert.equal(resourceValue(container, milli, machine), "1500");
    const memory = { resource: "limits.memory", divisor: "1Mi" };
    assert.equal(resourceValue(container, memory, machine), "64");
    assert.equal(resourceValue({ name: "main" }, memory, machine), "1024");
  });
});

describe("hasResourceReference()", () => {
  it("finds references of variables and of files", () => {
    const resourceFieldRef = { resource: "limits.cpu" };
    const items = [{ path: "cpu", resourceFieldRef }];
    const env = [{ name: "CPUS", valueFrom: { resourceFieldRef } }];
    const has = (spec: object): boolean => hasResourceReference(podWith({ spec }));
    assert.equal(has({ volumes: [{ name: "a", configMap: {} }] }), false);
    assert.equal(has({ initContainers: [{ name: "a", env }] }), true);
    assert.equal(has({ volumes: [{ name: "a", downwardAPI: { items } }] }), true);
    const sources = [{ serviceAccountToken: { path: "t" } }, { downwardAPI: { items } }];
    assert.equal(has({ volumes: [{ name: "a", projected: { sources } }] }), true);
  });
});
