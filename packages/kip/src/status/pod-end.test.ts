import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContainerStatus } from "@kip/k8s-types";
import { storedEnd } from "./pod-end.ts";

function statuses(count: number, textLength: number): ContainerStatus[] {
  const text = "x".repeat(textLength);
  return Array.from({ length: count }, (_each, index) => ({
    name: `c${index}`,
    ready: false,
    restartCount: 1,
    image: text,
    imageID: text,
    state: { terminated: { exitCode: 0, reason: "Completed", message: text } },
    lastState: { terminated: { exitCode: 1, message: text } },
  }));
}

describe("storedEnd()", () => {
  it("keeps an ordinary end except the messages of earlier runs", () => {
    const [container] = statuses(1, 10);
    assert.ok(container);
    const stored = storedEnd({
      phase: "Failed",
      reason: "Evicted",
      containerStatuses: [container],
    });
    assert.deepEqual(stored, {
      phase: "Failed",
      reason: "Evicted",
      containerStatuses: [{ ...container, lastState: { terminated: { exitCode: 1 } } }],
    });
  });

  it("hostile cell: is never larger than a Cell can hold", () => {
    for (const [count, length] of [
      [10, 4096],
      [5000, 10],
      [2000, 1024],
    ] as const) {
      const stored = storedEnd({ phase: "Succeeded", containerStatuses: statuses(count, length) });
      assert.ok(JSON.stringify(stored).length <= 200 * 1024);
      assert.equal(stored.phase, "Succeeded");
    }
  });

  it("shares the room for messages among the containers", () => {
    const stored = storedEnd({ phase: "Failed", containerStatuses: statuses(12, 4096) });
    const messages = stored.containerStatuses?.map(
      ({ state }) => state?.terminated?.message?.length,
    );
    assert.deepEqual(new Set(messages), new Set([1024]));
  });
});
