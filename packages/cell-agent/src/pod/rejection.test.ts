import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

describe("AgentWorker, with a pod that asks for what the cell does not have", () => {
  it("fails the pod before anything of it runs, as a kubelet that does not admit it", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const runtime = new FakeRuntime();
    const clock = new ManualClock();
    const worker = new AgentWorker({
      directories,
      clock,
      logger: silentLogger,
      onChange: () => {},
    });
    const rejection = { reason: "OutOfhugepages-2Mi", message: "not enough" };
    const reserveHugePages = async () => rejection;
    await worker.begin({ ...fakeDependencies({ runtime }), reserveHugePages });
    worker.put(desiredPod({ hugePages: [{ pageBytes: 2 ** 21, bytes: 2 ** 22 }] }));
    await eventually(() => worker.report()?.phase === "Failed");
    const { reason, message, events = [] } = worker.report() ?? {};
    assert.deepEqual([reason, message], ["OutOfhugepages-2Mi", "Pod was rejected: not enough"]);
    const told = events.filter((event) => event.reason === reason);
    assert.deepEqual(
      told.map((event) => [event.type, event.message]),
      [["Warning", "not enough"]],
    );
    assert.deepEqual(
      runtime.calls.filter((call) => call.startsWith("create")),
      [],
    );
    await worker[Symbol.asyncDispose]();
  });
});
