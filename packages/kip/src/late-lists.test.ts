import { before, describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { tell } from "./testing/faults/story.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";

describe("kip on a cloud that shows instances half a minute after their launch", () => {
  before(mockWhatTakesTime);

  for (const ms of [3000, 8000])
    it(`runs no pod on two machines if it is killed ${ms} ms after the pod came`, async () => {
      await tell(
        {
          world: { seed: 1, lagMs: 30_000, callMs: 0, replicas: 1 },
          operations: [
            { kind: "create", policy: "Always", cpu: "100m", graceSeconds: 2, isDeaf: false },
            { kind: "pass", ms },
            { kind: "kill", replica: 0, atCall: 1, effect: "none" },
            { kind: "pass", ms: 100_000 },
          ],
        },
        new ManualClock(),
      );
    });
});
