import { before, describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import type { Operation } from "./testing/faults/operations.ts";
import { tell } from "./testing/faults/story.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";

const outageMs = 1_200_000;
const world = { seed: 1, lagMs: 0, callMs: 0, replicas: 1 };
const pod = { policy: "Never", cpu: "100m", graceSeconds: 2, isDeaf: false } as const;
const ends: readonly (readonly [string, Operation])[] = [
  ["has exited", { kind: "exit", index: 0, exitCode: 0 }],
  ["was deleted", { kind: "delete", index: 0, graceSeconds: undefined }],
];

describe("kip after twenty minutes without an answer", () => {
  before(mockWhatTakesTime);

  for (const target of ["api", "cloud"] as const)
    for (const [what, end] of ends)
      // The world reports what costs money for more than a minute after the last fault.
      it(`ends the machine of a pod that ${what} within a minute, without the ${target} until then`, async () => {
        await tell(
          {
            world,
            operations: [
              { kind: "create", ...pod },
              { kind: "pass", ms: 30_000 },
              { kind: "away", target, ms: outageMs },
              end,
              { kind: "pass", ms: outageMs },
              { kind: "pass", ms: 400_000 },
            ],
          },
          new ManualClock(),
        );
      });
});
