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
        turn: AbortSignal.abort(),
        target: { runtime, containerId: "1", address: "" },
        dependencies: { runtime },
        events: eventList().events,
      });
    const first = stop();
    await clock.advance(2000);
    await first;
    assert.deepEqual(signals, [
      ["SIGTERM", 30_000],
      ["SIGKILL", 32_000],
    ]);
  });

  it("sends the stop signal without its hook when there is no grace period", async () => {
    const clock = new ManualClock(0);
    const { runtime } = fakeDependencies();
    const calls: string[] = [];
    runtime.kill = async (_id, signal) => void calls.push(`${signal} ${clock.now()}`);
    runtime.execute = async () => calls.push("hook");
    const stopped = stopContainer({ id: "1", stopSignal: "SIGTERM" } as ContainerRun, {
      container: container("main", { preStop: { exec: { command: ["hook"] } } }),
      grace: new GracePeriod(clock, endIn(0, clock.now())),
      ended: new AbortController().signal,
      turn: AbortSignal.abort(),
      target: { runtime, containerId: "1", address: "" },
      dependencies: { runtime },
      events: eventList().events,
    });
    await clock.advance(2000);
    await stopped;
    assert.deepEqual(calls, ["SIGTERM 0", "SIGKILL 2000"]);
  });

  it("waits for its turn, until the grace period is over", async () => {
    const clock = new ManualClock(0);
    const { runtime } = fakeDependencies();
    const signals: [string, number][] = [];
    runtime.kill = async (_id, signal) => void signals.push([signal, clock.now()]);
    const stop = async (turn: AbortSignal): Promise<void> =>
      await stopContainer({ id: "1", stopSignal: "SIGUSR1" } as ContainerRun, {
        container: container("side"),
        grace: new GracePeriod(clock, endIn(30_000, clock.now())),
        ended: new AbortController().signal,
        turn,
        target: { runtime, containerId: "1", address: "" },
        dependencies: { runtime },
        events: eventList().events,
      });
    const turn = new AbortController();
    const first = stop(turn.signal);
    await clock.advance(5000);
    assert.deepEqual(signals, []);
    turn.abort();
    await clock.advance(0);
    assert.deepEqual(signals, [["SIGUSR1", 5000]]);
    await clock.advance(25_000);
    await first;
    const never = stop(new AbortController().signal);
    await clock.advance(32_000);
    await never;
    assert.deepEqual(signals.slice(1), [
      ["SIGKILL", 30_000],
      ["SIGUSR1", 60_000],
      ["SIGKILL", 62_000],
    ]);
  });

  it("says that a hook has failed, or a signal cannot be sent, in the kubelet's words", async () => {
    const clock = new ManualClock(0);
    const { runtime } = fakeDependencies();
    runtime.kill = async (_id, signal) => {
      if (signal === "SIGFOO") throw new Error("unknown signal");
    };
    runtime.exec = async () => ({ exitCode: 1 });
    const { events, list } = eventList();
    const ended = new AbortController();
    const stop = async (): Promise<void> =>
      await stopContainer({ id: "1", stopSignal: "SIGFOO" } as ContainerRun, {
        container: container("main", { preStop: { exec: { command: ["hook"] } } }),
        grace: new GracePeriod(clock, endIn(30_000, clock.now())),
        ended: ended.signal,
        turn: AbortSignal.abort(),
        target: { runtime, containerId: "1", address: "" },
        dependencies: { runtime },
        events,
      });
    await stop();
    assert.deepEqual(
      list.map(({ type, reason, message }) => `${type} ${reason}: ${message}`),
      [
        "Warning FailedPreStopHook: PreStopHook failed",
        "Warning FailedKillPod: error killing pod: cannot send SIGFOO to container main: unknown signal",
      ],
    );
    ended.abort();
    await stop();
    assert.equal(
      list.length,
      2,
      "the end of the container cuts a hook short, which has not failed",
    );
  });
});
