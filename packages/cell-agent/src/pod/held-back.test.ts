import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { ImageError } from "@kip/oci-image";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

function workerIn(folder: string): AgentWorker {
  return new AgentWorker({
    directories: agentDirectories(`${folder}/state`, `${folder}/run`),
    clock: new ManualClock(),
    logger: silentLogger,
    onChange: () => {},
  });
}

describe("AgentWorker, with a container that cannot be created", () => {
  it("reports a user that the image does not have as a failure of the runtime", async () => {
    using folder = temporaryFolder();
    const worker = workerIn(folder.path);
    const unknown = new ImageError("IMAGE_USER_UNKNOWN", "no such user");
    const resolveUser = () => Promise.reject(unknown);
    await worker.begin({ ...fakeDependencies({ runtime: new FakeRuntime() }), resolveUser });
    worker.put(desiredPod());
    const waiting = () => worker.report()?.containers[0]?.waiting;
    await eventually(() => waiting()?.message !== undefined);
    const message = "Cannot use image: no such user";
    assert.deepEqual(waiting(), { reason: "CreateContainerError", message });
    await worker[Symbol.asyncDispose]();
  });

  it("reports an image without a command as a failure of the runtime", async () => {
    using folder = temporaryFolder();
    const worker = workerIn(folder.path);
    const dependencies = fakeDependencies({ runtime: new FakeRuntime() });
    const { images } = dependencies;
    const pull: typeof images.pull = async (...args) => {
      const pulled = await images.pull(...args);
      return { ...pulled, config: { ...pulled.config, entrypoint: [] } };
    };
    await worker.begin({ ...dependencies, images: { ...images, pull } });
    worker.put(desiredPod());
    const waiting = () => worker.report()?.containers[0]?.waiting;
    await eventually(() => waiting()?.message !== undefined);
    assert.deepEqual(waiting(), {
      reason: "CreateContainerError",
      message: "no command specified",
    });
    await worker[Symbol.asyncDispose]();
  });

  it("starts the others while its variables are missing, and starts it when a newer pod has them", async () => {
    using folder = temporaryFolder();
    const runtime = new FakeRuntime();
    const worker = workerIn(folder.path);
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

  it("leaves a container running whose variables go missing", async () => {
    using folder = temporaryFolder();
    const runtime = new FakeRuntime();
    const worker = workerIn(folder.path);
    await worker.begin(fakeDependencies({ runtime }));
    worker.put(desiredPod());
    const web = () => worker.report()?.containers[0];
    await eventually(() => web()?.running !== undefined);
    const containers = [container("web", { configProblem: 'secret "s" not found' })];
    worker.put(desiredPod({ generation: 2, containers }));
    await eventually(() => worker.report()?.generation === 2);
    assert.ok(web()?.running);
    runtime.exit("web", 1);
    await eventually(() => web()?.waiting?.reason === "CreateContainerConfigError");
    assert.equal(web()?.restartCount, 0);
    await worker[Symbol.asyncDispose]();
  });
});
