import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodReport } from "@kip/agent-api";
import { eventsOfReport } from "./pod-events.ts";

describe("eventsOfReport()", () => {
  it("names the field of each container, as a kubelet does", () => {
    const event = { sequence: 1, time: "2026-01-01T00:00:00Z", type: "Normal", reason: "Started" };
    const names = ["setup", "main", "debugger", undefined];
    const report = {
      initContainers: [{ name: "setup" }],
      containers: [{ name: "main" }],
      ephemeralContainers: [{ name: "debugger" }],
      events: names.map((container) => ({ ...event, message: "", container })),
    } as unknown as PodReport; // the fields that are read
    assert.deepEqual(
      eventsOfReport(report, "p").map(({ event: { fieldPath } }) => fieldPath),
      [
        "spec.initContainers{setup}",
        "spec.containers{main}",
        "spec.ephemeralContainers{debugger}",
        undefined,
      ],
    );
  });
});
