import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { dumpText } from "./dump-text.ts";

const worker = {
  pod: { namespace: "shop", name: "web", uid: "u1" },
  wanted: "run",
  cell: "cell-u1",
  phase: "Claimed",
  machine: "running",
  isAgentConnected: true,
  attempt: 0,
  steps: [],
} as const;
const dump = { node: "kip", time: "2030-01-01T00:00:00Z", admitted: [], standby: [], launches: [] };

describe("dumpText()", () => {
  it("shows each step with its pause before workers that have nothing to do", () => {
    const launch = { kind: "launch", lane: "cell", status: "paused", failures: 3, inMs: 4200 };
    const waiting = {
      ...worker,
      pod: { ...worker.pod, name: "db" },
      phase: "Pending",
      machine: "none",
      isAgentConnected: false,
      waitsFor: "The cloud has no capacity",
      steps: [launch],
    };
    assert.equal(
      dumpText([{ ...dump, pods: [worker, waiting] }]),
      `Node kip at 2030-01-01T00:00:00Z: 2 pods, 0 standby cells
NAMESPACE   POD   WANTED   PHASE     MACHINE   AGENT       STEP     STATUS   FAILURES     NEXT   WAITS-FOR
shop        db    run      Pending   none      away        launch   paused          3     4.2s   The cloud has no capacity
shop        web   run      Claimed   running   connected   <none>   idle            0   <none>   <none>
`,
    );
  });

  it("shows queues of launches only while the cloud slows them down", () => {
    const launches = [
      { of: "all", waiting: 0, delayMs: 0, inMs: 0 },
      { of: "t3.small/spot", waiting: 2, delayMs: 5000, inMs: 1500 },
    ];
    assert.equal(
      dumpText([{ ...dump, pods: [], admitted: ["shop/new"], launches }]),
      `Node kip at 2030-01-01T00:00:00Z: 0 pods, 0 standby cells
Admitted, without a worker yet: shop/new
Launches of t3.small/spot: 2 wait, one every 5.0s, the next in 1.5s
`,
    );
  });
});
