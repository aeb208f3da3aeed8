import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredPod } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import type { DiskMeter } from "../disk/disk-meter.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

const GiB = 2 ** 30;
const limit = { kind: "emptyDir", sizeLimitBytes: GiB, sizeLimit: "1Gi" } as const;
const overLimit = 'Usage of EmptyDir volume "data" exceeds the limit "1Gi". ';

/** A disk whose usage the test sets: by the pod's volume, and by everything else. */
class FakeDisk implements DiskMeter {
  dataBytes = 0;
  otherBytes = GiB;
  walks = 0;
  sizeBytes = 100 * GiB;

  async room() {
    const freeBytes = this.sizeBytes - this.dataBytes - this.otherBytes;
    return { sizeBytes: this.sizeBytes, freeBytes, inodes: 100, freeInodes: 50 };
  }

  usage: DiskMeter["usage"] = async (folders) => {
    this.walks++;
    const data = folders.filter((folder) => folder.endsWith("/volumes/data"));
    return new Map(data.map((folder) => [folder, { bytes: this.dataBytes, inodes: 2 }]));
  };
}

async function start(folder: string, runtime: FakeRuntime, disk: FakeDisk) {
  const clock = new ManualClock();
  const directories = agentDirectories(`${folder}/state`, `${folder}/run`);
  const worker = new AgentWorker({ directories, clock, logger: silentLogger, onChange: () => {} });
  await worker.begin({ ...fakeDependencies({ runtime }), diskMeter: disk });
  const later = async (): Promise<void> => {
    await clock.advance(10_000);
    await new Promise(setImmediate);
  };
  return { worker, clock, later };
}

async function running(pod: Partial<DesiredPod> = {}) {
  const folder = temporaryFolder();
  const [runtime, disk] = [new FakeRuntime(), new FakeDisk()];
  const agent = await start(folder.path, runtime, disk);
  agent.worker.put(desiredPod({ volumes: [{ name: "data", ...limit }], ...pod }));
  await eventually(() => agent.worker.report()?.phase === "Running");
  return { ...agent, folder, runtime, disk };
}

function ending(worker: AgentWorker) {
  const { phase, reason, message, events = [] } = worker.report() ?? {};
  return { phase, reason, message, told: events.filter((event) => event.reason === "Evicted") };
}

describe("AgentWorker, with limits on what the pod takes of the disk", () => {
  it("evicts the pod with the kubelet's reason, event and phase, for good", async () => {
    const { worker, later, folder, runtime, disk } = await running();
    using _folder = folder;
    await later();
    assert.equal(ending(worker).reason, undefined);
    disk.dataBytes = GiB + 1;
    await eventually(async () => {
      await later();
      return ending(worker).phase === "Failed";
    });
    const { reason, message, told } = ending(worker);
    assert.deepEqual([reason, message], ["Evicted", overLimit]);
    assert.deepEqual(
      told.map(({ type, message: text }) => [type, text]),
      [["Warning", overLimit]],
    );
    // The container handled its stop signal. restartPolicy Always does not apply.
    assert.ok(runtime.calls.includes("SIGTERM web"));
    await worker[Symbol.asyncDispose]();
  });

  it("remembers the reason when the agent is killed before the pod has ended", async () => {
    const { worker, later, folder, runtime, disk } = await running();
    using _folder = folder;
    runtime.deadly = [];
    disk.dataBytes = GiB + 1;
    await eventually(async () => {
      await later();
      return ending(worker).told.length === 1;
    });
    await worker[Symbol.asyncDispose]();
    runtime.deadly = ["SIGTERM", "SIGKILL"];
    const next = await start(folder.path, runtime, disk);
    await eventually(async () => {
      await next.later();
      return ending(next.worker).phase === "Failed";
    });
    const { reason, message, told } = ending(next.worker);
    assert.deepEqual([reason, message, told.length], ["Evicted", overLimit, 1]);
    await next.worker[Symbol.asyncDispose]();
  });

  it("walks through folders only when the disk shows that a limit can be exceeded", async () => {
    const { worker, later, folder, disk } = await running();
    using _folder = folder;
    await eventually(async () => {
      await later();
      return disk.walks === 1;
    });
    for (let turn = 0; turn < 20; turn++) await later();
    assert.equal(disk.walks, 1);
    disk.otherBytes += 2 * GiB;
    await eventually(async () => {
      await later();
      return disk.walks === 2;
    });
    for (let turn = 0; turn < 20; turn++) await later();
    assert.equal(disk.walks, 2);
    // Space that others have freed must not hide the pod's growth indefinitely.
    disk.otherBytes -= 2 * GiB;
    disk.dataBytes = GiB + 1;
    for (let turn = 0; turn < 30 && ending(worker).reason === undefined; turn++) await later();
    assert.equal(ending(worker).reason, "Evicted");
    await worker[Symbol.asyncDispose]();
  });

  it("walks for a pod without limits while its figures are read, and never for those who read them", async () => {
    const data = { name: "data", kind: "emptyDir" } as const;
    const fast = { name: "fast", kind: "emptyDir", medium: "Memory" } as const;
    const { worker, later, clock, folder, disk } = await running({ volumes: [data, fast] });
    using _folder = folder;
    disk.dataBytes = 4096;
    for (let turn = 0; turn < 40; turn++) await later();
    const first = worker.diskFigures.read(clock.now());
    assert.deepEqual([disk.walks, first?.sizeBytes, first?.walk], [0, 100 * GiB, undefined]);
    await eventually(async () => {
      await later();
      return disk.walks === 1;
    });
    for (let turn = 0; turn < 20; turn++) {
      await later();
      worker.diskFigures.read(clock.now());
    }
    assert.equal(disk.walks, 1);
    const { walk, mounts } = worker.diskFigures.read(clock.now()) ?? {};
    assert.deepEqual(walk?.volumes["data"], { bytes: 4096, inodes: 2 });
    assert.deepEqual(walk?.pod, { bytes: 4096, inodes: 2 });
    assert.deepEqual(Object.keys(walk?.containers ?? {}), ["web"]);
    assert.deepEqual(Object.keys(mounts ?? {}), ["fast"]);
    // One more walk for the last reader, and no more once that was long ago.
    for (let turn = 0; turn < 100; turn++) await later();
    const { walks } = disk;
    for (let turn = 0; turn < 100; turn++) await later();
    assert.equal(disk.walks, walks);
    await worker[Symbol.asyncDispose]();
  });

  it("never walks for a pod without limits, and evicts it from a full disk", async () => {
    const { worker, later, folder, disk } = await running({ volumes: [] });
    using _folder = folder;
    for (let turn = 0; turn < 40; turn++) await later();
    assert.equal(disk.walks, 0);
    disk.otherBytes = 95 * GiB;
    disk.usage = async () => await Promise.reject(new Error("no program can be started"));
    await eventually(async () => {
      await later();
      return ending(worker).phase === "Failed";
    });
    const { reason, message = "" } = ending(worker);
    assert.equal(reason, "Evicted");
    assert.match(
      message,
      /^The node was low on resource: ephemeral-storage\. Threshold quantity: \d+, available: 5Gi\. $/,
    );
    await worker[Symbol.asyncDispose]();
  });

  it("evicts the pod from a disk that becomes full during a walk, which it ends", async () => {
    const { worker, later, folder, disk } = await running();
    using _folder = folder;
    const limits: number[] = [];
    disk.usage = async (_folders, { limitSeconds, signal }) => {
      if (limits.push(limitSeconds) > 1) return new Map();
      return await new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("killed")));
      });
    };
    await eventually(async () => {
      await later();
      return limits.length === 1;
    });
    for (let turn = 0; turn < 5; turn++) await later();
    assert.equal(ending(worker).reason, undefined);
    disk.otherBytes = 95 * GiB;
    await eventually(async () => {
      await later();
      return ending(worker).phase === "Failed";
    });
    assert.match(ending(worker).message ?? "", /^The node was low on resource: ephemeral-storage/);
    assert.deepEqual(limits, [600, 5]);
    await worker[Symbol.asyncDispose]();
  });

  it("evicts nothing before a container has run", async () => {
    const folder = temporaryFolder();
    using _folder = folder;
    const [runtime, disk] = [new FakeRuntime(), new FakeDisk()];
    disk.otherBytes = 95 * GiB;
    runtime.nextCreateError = new Error("not yet");
    const agent = await start(folder.path, runtime, disk);
    agent.worker.put(desiredPod({ containers: [container("web", { image: "Upper/Case" })] }));
    for (let turn = 0; turn < 5; turn++) await agent.later();
    assert.equal(ending(agent.worker).reason, undefined);
    await agent.worker[Symbol.asyncDispose]();
  });
});
