import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

describe("AgentWorker, with a container whose variables are missing", () => {
  it("starts the others, says what is missing, and starts it when a newer pod has them", async () => {
    using folder = temporaryFolder();
    const runtime = new FakeRuntime();
    const worker = new AgentWorker({
      directories: agentDirectories(`${folder.path}/state`, `${folder.path}/run`),
      clock: new ManualClock(),
      logger: silentLogger,
      onChange: () => {},
    });
    await worker.begin(fakeDependencies({ runtime }));
    const configProblem = 'secret "s" not found';
    const initContainers = [container("maker")];
    const containers = [container("main", { configProblem }), container("other")];
    worker.put(desiredPod({ initContainers, containers }));
    await eventually(() => runtime.calls.includes("start maker"));
    runtime.exit("maker", 0);
    const main = () => worker.report()?.containers.find(({ name }) => name === "main");
    await eventually(() => main()?.waiting?.reason === "CreateContainerConfigError");
    assert.equal(main()?.waiting?.message, configProblem);
    await eventually(() => runtime.calls.includes("start other"));
    assert.ok(!runtime.calls.includes("create main"));

    const whole = [container("main"), container("other")];
    worker.put(desiredPod({ generation: 2, initContainers, containers: whole }));
    await eventually(() => main()?.running !== undefined);
    assert.equal(main()?.restartCount, 0);
    await worker[Symbol.asyncDispose]();
  });
});
