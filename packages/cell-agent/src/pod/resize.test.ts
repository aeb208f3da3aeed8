import assert from "node:assert/strict";
import { totalmem } from "node:os";
import { describe, it } from "node:test";
import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { podMemory } from "../admission/pod-memory.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { PodStore } from "../storage/pod-store.ts";
import { AgentWorker } from "./agent-worker.ts";

const MiB = 2 ** 20;
const small = {
  cpuMilliLimit: 200,
  cpuMilliRequest: 100,
  memoryBytesLimit: 64 * MiB,
  memoryBytesRequest: 32 * MiB,
};
const machine = { cpuMilli: 1000, memoryBytes: 256 * MiB };

/** A pod with one container, and its machine. */
function podOf(amounts: Partial<DesiredContainer>, generation = 1): DesiredPod {
  const containers = [container("main", { ...small, ...amounts })];
  return desiredPod({ containers, generation, podGeneration: generation, machine });
}

/** A worker that can be restarted with the state that it has left. */
class Cell implements AsyncDisposable {
  readonly runtime = new FakeRuntime();
  readonly clock = new ManualClock();
  readonly folder = temporaryFolder();
  readonly directories = agentDirectories(`${this.folder.path}/s`, `${this.folder.path}/r`);
  worker = this.#worker();

  async begin(): Promise<void> {
    await this.worker.begin(fakeDependencies({ runtime: this.runtime }));
  }

  /** Kills and restarts the agent, and calls `meanwhile` in between. */
  async restart(meanwhile?: () => void): Promise<void> {
    await this.worker[Symbol.asyncDispose]();
    meanwhile?.();
    this.worker = this.#worker();
    await this.begin();
  }

  async run(pod: DesiredPod): Promise<void> {
    await this.begin();
    this.worker.put(pod);
    await eventually(() => this.main?.running !== undefined);
  }

  get main() {
    return this.worker.report()?.containers[0];
  }

  /** Events since the last start. */
  get completed(): readonly string[] {
    return this.messages("ResizeCompleted");
  }

  messages(reason: string): readonly string[] {
    const events = this.worker.report()?.events ?? [];
    return events.flatMap((event) => (event.reason === reason ? [event.message] : []));
  }

  get resizes(): readonly string[] {
    return this.runtime.calls.filter((call) => call.startsWith("resize"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.worker[Symbol.asyncDispose]();
    this.folder[Symbol.dispose]();
  }

  #worker(): AgentWorker {
    return new AgentWorker({
      directories: this.directories,
      clock: this.clock,
      logger: silentLogger,
      onChange: () => {},
    });
  }
}

describe("AgentWorker, of a pod that is resized", () => {
  it("changes limits of running containers in place, and of the pod around them", async () => {
    await using cell = new Cell();
    await cell.run(podOf({}));
    assert.deepEqual(cell.main?.actuated, small);
    assert.deepEqual(cell.runtime.podLimits, [
      { cpuMilliRequest: 100, cpuMilliLimit: 200, memoryBytesLimit: 64 * MiB },
    ]);
    const larger = { ...small, cpuMilliLimit: 800, memoryBytesLimit: 128 * MiB };
    cell.worker.put(podOf(larger, 2));
    assert.deepEqual(cell.worker.report()?.resizeInProgress, { podGeneration: 2 });
    await eventually(() => cell.completed.length > 0);
    const limits = { cpuMilliLimit: 800, cpuMilliRequest: 100, memoryBytesLimit: 128 * MiB };
    assert.deepEqual(cell.resizes, [`resize main ${JSON.stringify(limits)}`]);
    assert.deepEqual(cell.runtime.podLimits.at(-1), {
      cpuMilliRequest: 100,
      cpuMilliLimit: 800,
      memoryBytesLimit: 128 * MiB,
    });
    assert.deepEqual([cell.main?.allocated, cell.main?.actuated], [larger, larger]);
    assert.equal(cell.main?.restartCount, 0);
    assert.equal(cell.worker.report()?.resizeInProgress, undefined);
    const amounts =
      '{"containers":[{"name":"main","resources":{"limits":{"cpu":"800m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"32Mi"}}}]';
    assert.deepEqual(cell.messages("ResizeStarted"), [
      `Pod resize started: ${amounts},"generation":2}`,
    ]);
    assert.deepEqual(cell.completed, [`Pod resize completed: ${amounts}}`]);
  });

  it("leaves the agent its memory, before and after, where the pod has no limit or a large one", async () => {
    await using cell = new Cell();
    const limit = (): number | undefined => cell.runtime.podLimits.at(-1)?.memoryBytesLimit;
    await cell.run(podOf({ memoryBytesLimit: undefined }));
    assert.equal(cell.worker.hasMemoryLimit, false);
    assert.equal(limit(), podMemory({}));
    cell.worker.put(podOf({ memoryBytesLimit: totalmem() }, 2));
    await eventually(() => cell.completed.length > 0);
    assert.equal(cell.worker.hasMemoryLimit, true);
    assert.equal(limit(), podMemory({}));
  });

  it("restarts a container whose policy wants that for the resource", async () => {
    await using cell = new Cell();
    const policy = { resizeRestarts: ["memory"] } as const;
    await cell.run(podOf(policy));
    cell.worker.put(podOf({ ...policy, cpuMilliLimit: 300 }, 2));
    await eventually(() => cell.completed.length === 1);
    assert.equal(cell.main?.restartCount, 0);
    cell.worker.put(podOf({ ...policy, cpuMilliLimit: 300, memoryBytesLimit: 96 * MiB }, 3));
    await eventually(() => cell.main?.running !== undefined && cell.main.restartCount === 1);
    const spec = cell.runtime.specs.get(cell.runtime.running("main").id);
    assert.equal(spec?.resources?.memoryBytesLimit, 96 * MiB);
    await eventually(() => cell.completed.length === 2);
    const events = cell.worker.report()?.events.map(({ message }) => message);
    assert.ok(events?.includes("Container main resize requires restart"));
    assert.equal(cell.runtime.podLimits.at(-1)?.memoryBytesLimit, 96 * MiB);
  });

  it("keeps what it has when the cell is too small, until that is withdrawn", async () => {
    await using cell = new Cell();
    await cell.run(podOf({}));
    const tooLarge = { memoryBytesRequest: 257 * MiB, memoryBytesLimit: 300 * MiB };
    cell.worker.put(podOf(tooLarge, 2));
    const pending = {
      reason: "Infeasible",
      message: `Node didn't have enough capacity: memory, requested: ${257 * MiB}, capacity: ${256 * MiB}`,
      podGeneration: 2,
    };
    assert.deepEqual(cell.worker.report()?.resizePending, pending);
    const amounts =
      '{"limits":{"cpu":"200m","memory":"300Mi"},"requests":{"cpu":"100m","memory":"257Mi"}}';
    assert.deepEqual(cell.messages("ResizeInfeasible"), [
      `Pod resize Infeasible: {"containers":[{"name":"main","resources":${amounts}}],"generation":2,"error":"${pending.message}"}`,
    ]);
    cell.worker.put({ ...podOf(tooLarge, 3), podGeneration: 2 });
    await cell.restart();
    assert.deepEqual(cell.worker.report()?.resizePending, pending);
    // A container that starts now gets what was feasible.
    cell.runtime.exit("main", 1);
    await eventually(() => cell.main?.running !== undefined && cell.main.restartCount === 1);
    const spec = cell.runtime.specs.get(cell.runtime.running("main").id);
    assert.equal(spec?.resources?.memoryBytesLimit, 64 * MiB);
    assert.deepEqual([cell.main?.allocated, cell.main?.actuated], [small, small]);
    assert.equal(cell.messages("ResizeInfeasible").length, 1);
    cell.worker.put(podOf({}, 4));
    assert.equal(cell.worker.report()?.resizePending, undefined);
    assert.deepEqual([cell.resizes, cell.messages("ResizeStarted"), cell.completed], [[], [], []]);
  });

  it("keeps the resources that it had on the previous cell, if this one is too small for a resize", async () => {
    const large = { memoryBytesRequest: 300 * MiB, memoryBytesLimit: 300 * MiB };
    await using cell = new Cell();
    await cell.run(podOf({ ...large, granted: small }));
    assert.deepEqual(cell.main?.allocated, small);
    assert.equal(cell.worker.report()?.resizePending?.reason, "Infeasible");
    await using larger = new Cell();
    const pod = podOf({ ...large, granted: small });
    await larger.run({ ...pod, machine: { cpuMilli: 1000, memoryBytes: 512 * MiB } });
    assert.equal(larger.main?.allocated?.memoryBytesLimit, 300 * MiB);
    assert.equal(larger.worker.report()?.resizePending, undefined);
  });

  it("takes no memory away that is in use, says so, and tries again", async () => {
    await using cell = new Cell();
    await cell.run(podOf({}));
    cell.runtime.memoryUsageBytes = 48 * MiB;
    cell.worker.put(podOf({ memoryBytesLimit: 40 * MiB }, 2));
    await eventually(() => cell.worker.report()?.resizeInProgress?.reason === "Error");
    const usage = `(${40 * MiB}) below current usage (${48 * MiB})`;
    assert.equal(
      cell.worker.report()?.resizeInProgress?.message,
      `cannot decrease memory limits: [attempting to set pod memory limit ${usage}, attempting to set container "main" memory limit ${usage}]`,
    );
    assert.equal(cell.main?.allocated?.memoryBytesLimit, 40 * MiB);
    assert.equal(cell.main?.actuated?.memoryBytesLimit, 64 * MiB);
    cell.runtime.memoryUsageBytes = 49 * MiB;
    await eventually(async () => {
      await cell.clock.advance(10_000);
      return cell.worker.report()?.resizeInProgress?.message?.includes(`(${49 * MiB})`) === true;
    });
    const [told, ...again] = cell.messages("ResizeError");
    assert.match(told ?? "", /^Pod resize error: \{"containers":.*,"generation":2,"error":"cannot/);
    assert.deepEqual(again, [], "once for a resize, although what is in use changes");
    await cell.restart();
    cell.runtime.memoryUsageBytes = 20 * MiB;
    await eventually(async () => {
      await cell.clock.advance(10_000);
      return cell.completed.length > 0;
    });
    assert.equal(cell.main?.actuated?.memoryBytesLimit, 40 * MiB);
    assert.equal(cell.runtime.podLimits.at(-1)?.memoryBytesLimit, 40 * MiB);
  });

  it("continues a resize that the agent did not record before it ended", async () => {
    await using cell = new Cell();
    await cell.run(podOf({}));
    const next = podOf({ cpuMilliLimit: 300 }, 2);
    const store = new PodStore(cell.directories);
    await cell.restart(() => store.savePod(next));
    // The agent saves its state at the end of a turn of the event loop.
    await eventually(
      () => store.load()?.state.events.some(({ reason }) => reason === "ResizeCompleted") === true,
    );
    assert.equal(cell.main?.actuated?.cpuMilliLimit, 300);
    await cell.restart();
    assert.equal(cell.resizes.length, 1);
    assert.equal(cell.completed.length, 1);
  });

  it("ends when the container does: it starts with what it is to have", async () => {
    await using cell = new Cell();
    await cell.run(podOf({}));
    cell.runtime.memoryUsageBytes = 48 * MiB;
    cell.worker.put(podOf({ memoryBytesLimit: 40 * MiB }, 2));
    await eventually(() => cell.worker.report()?.resizeInProgress?.reason === "Error");
    cell.runtime.memoryUsageBytes = 2;
    cell.runtime.exit("main", 1);
    await eventually(() => cell.main?.running !== undefined && cell.main.restartCount === 1);
    assert.equal(cell.completed.length, 1);
    const spec = cell.runtime.specs.get(cell.runtime.running("main").id);
    assert.equal(spec?.resources?.memoryBytesLimit, 40 * MiB);
  });
});
