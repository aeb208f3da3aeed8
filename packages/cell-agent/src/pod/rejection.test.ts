import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

/** An agent whose machine lacks what the test specifies. */
async function agent(folder: string, lacks: Partial<AgentDependencies>) {
  const directories = agentDirectories(`${folder}/state`, `${folder}/run`);
  const runtime = new FakeRuntime();
  const worker = new AgentWorker({
    directories,
    clock: new ManualClock(),
    logger: silentLogger,
    onChange: () => {},
  });
  await worker.begin({ ...fakeDependencies({ runtime }), ...lacks });
  return { worker, runtime };
}

function ending(worker: AgentWorker) {
  const { phase, reason, message, events = [] } = worker.report() ?? {};
  const told = events.filter((event) => event.reason === reason).map((event) => event.message);
  return { phase, reason, message, told };
}

describe("AgentWorker, with a pod that asks for what the cell does not have", () => {
  it("fails the pod before anything of it runs, as a kubelet that does not admit it", async () => {
    using folder = temporaryFolder();
    const rejection = { reason: "OutOfhugepages-2Mi", message: "not enough" };
    const { worker, runtime } = await agent(folder.path, {
      reserveHugePages: async () => rejection,
    });
    worker.put(desiredPod({ hugePages: [{ pageBytes: 2 ** 21, bytes: 2 ** 22 }] }));
    await eventually(() => worker.report()?.phase === "Failed");
    assert.deepEqual(ending(worker), {
      phase: "Failed",
      reason: "OutOfhugepages-2Mi",
      message: "Pod was rejected: not enough",
      told: ["not enough"],
    });
    assert.deepEqual(created(runtime), []);
    await worker[Symbol.asyncDispose]();
  });

  it("waits with devices for a container that may bring them, and fails the pod if it has not", async () => {
    using folder = temporaryFolder();
    const { worker, runtime } = await agent(folder.path, {});
    const extendedResources = [{ resource: "nvidia.com/gpu", count: 1 }];
    const main = container("main", { extendedResources });
    worker.put(desiredPod({ initContainers: [container("driver")], containers: [main] }));
    await eventually(() => runtime.calls.includes("start driver"));
    assert.equal(worker.report()?.phase, "Pending");
    runtime.exit("driver", 0);
    await eventually(() => worker.report()?.phase === "Failed");
    assert.equal(ending(worker).reason, "UnexpectedAdmissionError");
    assert.deepEqual(created(runtime), ["create driver"]);
    await worker[Symbol.asyncDispose]();
  });

  it("fails a pod that asks for a GPU at once where nothing can bring it", async () => {
    using folder = temporaryFolder();
    const { worker, runtime } = await agent(folder.path, {});
    const extendedResources = [{ resource: "nvidia.com/gpu", count: 1 }];
    worker.put(desiredPod({ containers: [container("main", { extendedResources })] }));
    await eventually(() => worker.report()?.phase === "Failed");
    assert.match(ending(worker).message ?? "", /Requested: 1, Available: 0, which is unexpected$/);
    assert.deepEqual(created(runtime), []);
    await worker[Symbol.asyncDispose]();
  });
});

function created({ calls }: FakeRuntime): readonly string[] {
  return calls.filter((call) => call.startsWith("create"));
}
