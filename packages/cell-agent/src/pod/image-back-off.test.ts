import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, type Clock } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

function newWorker(folder: string, clock: Clock, onChange = (): void => {}): AgentWorker {
  const directories = agentDirectories(path.join(folder, "s"), path.join(folder, "r"));
  return new AgentWorker({ directories, clock, logger: silentLogger, onChange });
}

describe("AgentWorker, of an image that cannot be pulled", () => {
  it("holds pulls back as the kubelet does, and shows ErrImagePull after each", async () => {
    using work = temporaryFolder();
    const clock = new ManualClock(0);
    const states: string[] = [];
    const missing = new Set(["web"]);
    await using worker = newWorker(work.path, clock, () => {
      const report = worker.report();
      const state = report?.containers[0];
      const reason = state?.waiting?.reason ?? (state?.running ? "running" : "");
      if (states.at(-1) !== reason) states.push(reason);
    });
    await worker.begin(fakeDependencies({ missing }));
    worker.put(desiredPod());
    for (let second = 0; second < 3000 && states.at(-1) !== "running"; second++) {
      if (second === 1000) missing.clear();
      await clock.advance(1000);
    }
    assert.equal(states.at(-1), "running");
    const events = worker.report()?.events ?? [];
    const begin = Date.parse(events[0]?.time ?? "");
    const secondsOf = (word: string): number[] =>
      events
        .filter(({ reason }) => reason === word)
        .map(({ time }) => (Date.parse(time) - begin) / 1000);
    // 10 s, doubling to 5 min.
    assert.deepEqual(secondsOf("Pulling"), [0, 10, 30, 70, 150, 310, 610, 910, 1210]);
    assert.deepEqual(secondsOf("BackOff"), [1, 11, 31, 71, 151, 311, 611, 911]);
    assert.deepEqual(states.slice(0, 5), [
      "ContainerCreating",
      "ErrImagePull",
      "ImagePullBackOff",
      "ErrImagePull",
      "ImagePullBackOff",
    ]);
    const first = events.slice(0, 5).map(({ type, reason, message }) => {
      return `${type} ${reason}: ${message.replace(/: Cannot.*/, ": …")}`;
    });
    assert.deepEqual(first, [
      'Normal Pulling: Pulling image "registry.test/web:1"',
      'Warning Failed: Failed to pull image "registry.test/web:1": …',
      "Warning Failed: Error: ErrImagePull",
      'Normal BackOff: Back-off pulling image "registry.test/web:1"',
      "Warning Failed: Error: ImagePullBackOff",
    ]);
    worker.remove(0);
  });

  it("does not wait for longer when the clock is set back meanwhile", async () => {
    using work = temporaryFolder();
    const clock = new ManualClock();
    const missing = new Set(["web"]);
    await using worker = newWorker(work.path, clock);
    await worker.begin(fakeDependencies({ missing }));
    worker.put(desiredPod());
    const web = () => worker.report()?.containers[0];
    await eventually(() => web()?.waiting?.reason === "ErrImagePull");
    missing.clear();
    clock.step(-3_600_000);
    await eventually(async () => {
      await clock.advance(1000);
      return web()?.running !== undefined;
    });
    assert.ok(clock.monotonic() <= 20_000);
    worker.remove(0);
  });

  it("names the image of a volume that the container waits for", async () => {
    using work = temporaryFolder();
    const clock = new ManualClock(0);
    const missing = new Set(["models"]);
    await using worker = newWorker(work.path, clock);
    await worker.begin(fakeDependencies({ missing }));
    const models = { name: "models", kind: "image", image: "registry.test/models:1" } as const;
    const unused = { name: "unused", kind: "image", image: "registry.test/models:2" } as const;
    const mounts = [{ name: "models", mountPath: "/models" }];
    worker.put(
      desiredPod({ containers: [container("web", { mounts })], volumes: [models, unused] }),
    );
    const waiting = () => worker.report()?.containers[0]?.waiting;
    await eventually(async () => {
      await clock.advance(1000);
      return waiting()?.reason === "ImagePullBackOff";
    });
    assert.match(
      waiting()?.message ?? "",
      /^Back-off pulling image "registry\.test\/models:1": ErrImagePull: Failed to pull image/,
    );
    const told = worker.report()?.events ?? [];
    const pulls = told.filter(({ reason }) => reason === "Pulling");
    assert.deepEqual(
      pulls.map((event) => [event.container, event.message]),
      [
        ["web", 'Pulling image "registry.test/web:1"'],
        [undefined, 'Pulling image "registry.test/models:1"'],
      ],
    );
    missing.clear();
    await eventually(async () => {
      await clock.advance(1000);
      return worker.report()?.containers[0]?.running !== undefined;
    });
    worker.remove(0);
  });
});
