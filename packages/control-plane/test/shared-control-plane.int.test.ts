import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sharedControlPlane } from "@kip/control-plane/testing";

describe("sharedControlPlane()", () => {
  it("admits a pod in a namespace of its own", async () => {
    await using cluster = await sharedControlPlane();
    const namespace = await cluster.createNamespace();
    await cluster.kubectl(["run", "one", "-n", namespace, "--image=none.invalid/none"]);
    const phase = await cluster.kubectl([
      "get",
      "pod",
      "one",
      "-n",
      namespace,
      "-o",
      "jsonpath={.status.phase}",
    ]);
    assert.equal(phase, "Pending");
  });
});
