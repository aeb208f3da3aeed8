import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { tagsIn } from "./push-images.ts";

describe("tagsIn()", () => {
  it("gives all tags of a repository, and none of those whose names only begin or end like it", () => {
    const references = [
      "registry.k8s.io/e2e-test-images/nginx:1.14-4",
      "registry.k8s.io/e2e-test-images/nginx:1.15-4",
      "registry.k8s.io/e2e-test-images/nginx-new:1",
      "other.k8s.io/e2e-test-images/nginx:2",
      "registry.k8s.io/etcd:3.6.4-0",
    ];
    assert.deepEqual(tagsIn(references, "e2e-test-images/nginx"), ["1.14-4", "1.15-4"]);
    assert.deepEqual(tagsIn(references, "etcd"), ["3.6.4-0"]);
    assert.deepEqual(tagsIn(references, "pause"), []);
  });
});
