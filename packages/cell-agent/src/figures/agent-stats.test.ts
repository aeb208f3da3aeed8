import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeAgentStats } from "@kip/agent-api";
import { silentLogger } from "@kip/base";
import type { PodSandbox } from "@kip/oci-runtime";
import { ManualClock } from "@kip/testing";
import { agentStats } from "./agent-stats.ts";
import { DiskFigures } from "./disk-figures.ts";

const usage = { cpuUsageNanoseconds: 1, memoryUsageBytes: 2, memoryWorkingSetBytes: 2 };

describe("agentStats()", () => {
  it("is a document that kip reads, without containers that have ended meanwhile", async () => {
    const device = { readBytes: 1, writtenBytes: 1, reads: 1, writes: 1 };
    const devices = Array.from({ length: 100 }, (_, index) => ({ ...device, device: `d${index}` }));
    const runtime = {
      stats: async (id: string) => {
        if (id === "gone") throw new Error("no such cgroup");
        return { ...usage, devices, pid: process.pid };
      },
      podStats: () => usage,
    };
    const worker = {
      running: () =>
        new Map([
          ["app", "one"],
          ["ended", "gone"],
        ]),
      probes: () => [],
      sandbox: { cgroupParent: "/pod" } as PodSandbox, // the fields that are read
      hasMemoryLimit: false,
      diskFigures: new DiskFigures(),
    };
    const made = await agentStats(runtime, {
      worker,
      clock: new ManualClock(),
      logger: silentLogger,
    });
    const read = decodeAgentStats(JSON.parse(JSON.stringify(made)), "stats");
    assert.deepEqual(Object.keys(read.containers), ["app"]);
    assert.equal(read.containers["app"]?.devices?.length, 32);
    assert.ok(!("pid" in (read.containers["app"] ?? {})));
    assert.deepEqual(read.pod, usage);
    assert.ok(read.interfaces);
    assert.equal(read.disk, undefined);
  });

  it("has no limit of memory for a pod that has none itself, although its cgroup leaves the agent its memory", async () => {
    const runtime = {
      stats: async () => assert.fail("no container runs"),
      podStats: () => ({ ...usage, memoryLimitBytes: 2 ** 30 }),
    };
    const limitOf = async (hasMemoryLimit: boolean): Promise<number | undefined> => {
      const worker = {
        running: () => new Map(),
        probes: () => [],
        sandbox: { cgroupParent: "/pod" } as PodSandbox, // the fields that are read
        hasMemoryLimit,
        diskFigures: new DiskFigures(),
      };
      const clock = new ManualClock();
      const { pod } = await agentStats(runtime, { worker, clock, logger: silentLogger });
      return pod?.memoryLimitBytes;
    };
    assert.equal(await limitOf(false), undefined);
    assert.equal(await limitOf(true), 2 ** 30);
  });
});
