import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { defaultContainer } from "./container.ts";

describe("defaultContainer()", () => {
  const spec = { containers: [{ name: "main" }, { name: "proxy" }] };
  const named = (name: string) => {
    const annotations = { "kubectl.kubernetes.io/default-container": name };
    return defaultContainer(podWith({ metadata: { annotations }, spec }));
  };

  it("is the one of the pod's annotation, if the pod has it, else the first", () => {
    assert.equal(named("proxy"), "proxy");
    assert.equal(named("none"), "main");
    assert.equal(defaultContainer(podWith({ spec })), "main");
  });
});
