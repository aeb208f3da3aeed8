import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { paths } from "./paths.ts";

describe("paths", () => {
  it("name collections, objects and subresources", () => {
    assert.equal(paths.pods(), "/api/v1/pods");
    assert.equal(paths.pods("a", "b", "status"), "/api/v1/namespaces/a/pods/b/status");
    assert.equal(paths.nodes("a?b"), "/api/v1/nodes/a%3Fb");
  });

  it("refuse a name that leads to another object", () => {
    for (const name of ["", ".", "..", "../../kube-system/secrets/a", "a/b", "a%2fb"])
      assert.throws(() => paths.secrets("a", name), { code: "K8S_INVALID" }, name);
    assert.throws(() => paths.secrets("..", "a"), { code: "K8S_INVALID" });
  });
});
