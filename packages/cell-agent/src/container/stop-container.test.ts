import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { container } from "../../test/desired-pod.ts";
import { eventList } from "../../test/event-list.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import type { ContainerRun } from "../state/container-record.ts";
import { endIn } from "../state/pod-end.ts";
import { GracePeriod } from "./grace-period.ts";
import { stopContainer } from "./stop-container.ts";

describe("stopContainer()", () => {
  it("gives a container two seconds, although others have used up the grace period", async () => {
    const clock = new ManualClock(0);
    const grace = new GracePeriod(clock, endIn(30_000, clock.now()));
    await clock.advance(30_000);
    const { runtime } = fakeDependencies();
    const signals: [string, number][] = [];
    runtime.kill = async (_id, signal) => void signals.push([signal, clock.now()]);
    const stop = async (): Promise<void> =>
      await stopContainer({ id: "1", stopSignal: "SIGTERM" } as ContainerRun, {
        container: container("side"),
        grace,
        ended: new AbortController().signal,
        target: { runtime, containerId: "1", address: "" },
        dependencies: { runtime },
        events: eventList().events,
      });
    const first = stop();
    await clock.advance(2000);
    await first;
    grace.shorten(endIn(0, clock.now()));
    await stop();
    assert.deepEqual(signals, [
      ["SIGTERM", 30_000],
      ["SIGKILL", 32_000],
      ["SIGKILL", 32_000],
    ]);
  });
});
