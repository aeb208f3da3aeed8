import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { cellStateWith, StateUnderTest } from "../../testing/index.ts";
import { expire } from "./end-pod.ts";

describe("expire()", () => {
  it("ends the containers that were to run first, as a kubelet does, and not those after them", async () => {
    const initContainers = [{ name: "init" }, { name: "second" }];
    for (const [spec, shown, initialized] of [
      [{}, [["main", true]], "True"],
      [
        { initContainers },
        [
          ["init", true],
          ["second", false],
          ["main", false],
        ],
        "False",
      ],
    ] as const) {
      const object = podWith({ spec: { ...spec, containers: [{ name: "main" }] } });
      const test = new StateUnderTest(cellStateWith({ pod: { object } }), new ManualClock());
      await test.run(expire);
      const { status } = test.state;
      assert.deepEqual([status?.phase, status?.reason], ["Failed", "DeadlineExceeded"]);
      const { initContainerStatuses = [], containerStatuses = [] } = status ?? {};
      const all = [...initContainerStatuses, ...containerStatuses];
      assert.deepEqual(
        all.map(({ name, state }) => [name, state?.terminated !== undefined]),
        shown,
      );
      assert.equal(
        status?.conditions?.find(({ type }) => type === "Initialized")?.status,
        initialized,
      );
    }
  });
});
