import assert from "node:assert/strict";
import { it } from "node:test";
import { container } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { fastClock } from "../../test/fast-clock.ts";
import type { ContainerRun } from "../state/container-record.ts";
import { PodEvents } from "../state/pod-events.ts";
import { GracePeriod } from "./grace-period.ts";
import { stopContainer } from "./stop-container.ts";

it("gives a container two seconds, although others have used up the grace period", async () => {
  const clock = fastClock();
  const grace = new GracePeriod(clock, 30_000);
  await clock.sleep(30_000);
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
      events: new PodEvents(clock),
      clock,
    });
  await stop();
  grace.shorten(0);
  await stop();
  assert.deepEqual(signals, [
    ["SIGTERM", 30_000],
    ["SIGKILL", 32_000],
    ["SIGKILL", 32_000],
  ]);
});
