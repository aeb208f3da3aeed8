import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { requireIdentity } from "./require-identity.ts";

describe("requireIdentity()", () => {
  const path = "/api/v1/pods";

  it("accepts an object that was stored", () => {
    requireIdentity(podWith(), path);
  });

  for (const field of ["name", "uid", "resourceVersion"])
    for (const value of [undefined, "", 7])
      it(`rejects an object whose ${field} is ${JSON.stringify(value)}`, () => {
        const object = podWith({ metadata: { [field]: value } });
        assert.throws(() => requireIdentity(object, path), { code: "K8S_UNAVAILABLE" });
      });

  it("rejects an object without metadata", () => {
    assert.throws(() => requireIdentity({}, path), { code: "K8S_UNAVAILABLE" });
  });
});
