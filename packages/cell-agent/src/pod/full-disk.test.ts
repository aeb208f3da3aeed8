import assert from "node:assert/strict";
import fs from "node:fs";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { RuntimeError } from "@kip/oci-runtime";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

/** A worker whose disk can become full. Its runtime outlives it. */
function start(folder: string, runtime = new FakeRuntime()) {
  const clock = new ManualClock();
  const directories = agentDirectories(`${folder}/state`, `${folder}/run`);
  const reasons: unknown[] = [];
  const worker = new AgentWorker({
    directories,
    clock,
    logger: silentLogger,
    onChange: () => void reasons.push(worker.report()?.containers[0]?.waiting?.reason),
  });
  const draft = `${directories.podState}.new`;
  const disk = { fill: () => fs.mkdirSync(draft), clear: () => fs.rmdirSync(draft) };
  const main = () => worker.report()?.containers[0];
  return { worker, runtime, clock, disk, main, reasons };
}

describe("AgentWorker, on a disk that is full for a while", () => {
  for (const code of ["CONTAINER_CREATE_FAILED", "CONTAINER_NOT_FOUND"] as const)
    it(`reports a container that fails with ${code}, starts it again, and ends`, async () => {
      using folder = temporaryFolder();
      const { worker, runtime, clock, disk, main, reasons } = start(folder.path);
      await using _ended = worker;
      const create = runtime.create.bind(runtime);
      runtime.create = async () => {
        disk.fill();
        runtime.create = create;
        throw new RuntimeError(code, "no");
      };
      await worker.begin(fakeDependencies({ runtime }));
      worker.put(desiredPod({ containers: [container("main")] }));
      await eventually(() => runtime.create === create && reasons.at(-1) !== "ContainerCreating");
      disk.clear();
      await eventually(async () => {
        await clock.advance(15_000);
        return main()?.running !== undefined;
      });
      worker.remove(0);
      await eventually(() => worker.report()?.isReleased === true);
    });

  it("keeps the container that has ended until its end is written down", async () => {
    using folder = temporaryFolder();
    const { worker, runtime, clock, disk, main } = start(folder.path);
    await worker.begin(fakeDependencies({ runtime }));
    worker.put(desiredPod({ restartPolicy: "Never", containers: [container("main")] }));
    await eventually(() => main()?.running !== undefined);
    disk.fill();
    runtime.exit("main", 3);
    await eventually(() => main()?.terminated?.exitCode === 3);
    await clock.advance(500);
    assert.equal(runtime.states.size, 1);
    const next = start(folder.path, runtime);
    await next.worker.begin(fakeDependencies({ runtime }));
    await eventually(() => next.main()?.terminated?.exitCode === 3);
    disk.clear();
    await eventually(async () => {
      await next.clock.advance(15_000);
      return runtime.states.size === 0;
    });
    for (const each of [worker, next.worker]) await each[Symbol.asyncDispose]();
  });
});
