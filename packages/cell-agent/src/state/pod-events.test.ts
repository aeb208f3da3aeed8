import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { PodEventReport } from "@kip/agent-api";
import { withEvent } from "./pod-events.ts";

describe("withEvent()", () => {
  it("hostile pod: keeps no more of a probe's long answers in memory than is reported", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const usedBytes = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const before = usedBytes();
    let events: readonly PodEventReport[] = [];
    for (let count = 0; count < 50; count++) {
      const message = `Liveness probe failed: ${String(count).repeat(500_000)}`;
      const event = { type: "Warning", reason: "Unhealthy", message } as const;
      events = withEvent({ events, containers: new Map() }, event, 0);
    }
    const each = (usedBytes() - before) / events.length;
    assert.ok(each < 100_000, `${each} bytes`);
    assert.deepEqual([events.length, events[49]?.message.length], [50, 1000]);
  });
});
