import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { AgentClient, AgentStats, PodReport } from "@kip/agent-api";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { CellStats } from "./cell-stats.ts";
import { countProbes, measurePods, podUsage } from "./pod-usage.ts";

const stats: AgentStats = {
  time: "2026-01-01T00:01:00.500Z",
  containers: {
    main: { cpuUsageNanoseconds: 5e9, memoryUsageBytes: 300, memoryWorkingSetBytes: 200 },
    other: { cpuUsageNanoseconds: 0, memoryUsageBytes: 0, memoryWorkingSetBytes: 0 },
  },
  agentRssBytes: 1,
  agentCpuMicroseconds: 1,
};

const pod = podWith({
  spec: { containers: [{ name: "main" }], volumes: [{ name: "data" }] },
});

describe("podUsage()", () => {
  it("gives each container its figures and its start, if it is known", () => {
    const running = { startedAt: "2026-01-01T00:00:00Z" };
    const report = {
      containers: [{ name: "main", running }, { name: "ended" }],
      initContainers: [],
      ephemeralContainers: [],
    } as unknown as PodReport; // the fields that are read
    const timeMs = Date.UTC(2026, 0, 1, 0, 1, 0, 500);
    assert.deepEqual(podUsage("u", stats, report), {
      uid: "u",
      containers: [
        {
          name: "main",
          timeMs,
          cpuNanoseconds: 5e9,
          memoryBytes: 300,
          workingSetBytes: 200,
          startTimeMs: Date.UTC(2026, 0, 1),
        },
        { name: "other", timeMs, cpuNanoseconds: 0, memoryBytes: 0, workingSetBytes: 0 },
      ],
    });
  });
});

const never = new AbortController().signal;

function cells(): CellStats {
  return new CellStats({ clock: new ManualClock(), logger: silentLogger });
}

describe("measurePods()", () => {
  it("hostile cell: has no figures of containers that its pod does not have, and one count per probe", async () => {
    const count = { container: "main", kind: "Liveness", successful: 1, failed: 1 } as const;
    const probes = [count, { ...count, container: "other" }, { ...count, successful: 2 }];
    const agent = { stats: async () => ({ ...stats, probes }) } as unknown as AgentClient; // the methods that are called
    const pods = [{ uid: "a", agent, report: undefined, pod }];
    const [usage] = await measurePods(pods, cells(), never);
    assert.deepEqual(
      usage?.containers.map(({ name }) => name),
      ["main"],
    );
    const counted = await countProbes(pods, cells(), never);
    assert.deepEqual(counted, [{ ...count, successful: 2, uid: "a" }]);
  });

  it("leaves out cells that do not answer", async () => {
    const agent = (answer: () => Promise<AgentStats>): AgentClient =>
      ({ stats: answer }) as unknown as AgentClient; // the methods that are called
    const good = {
      uid: "a",
      agent: agent(async () => stats),
      report: undefined,
      pod,
    };
    const away = {
      uid: "b",
      agent: agent(async () => await Promise.reject(new Error("away"))),
      report: undefined,
      pod,
    };
    const measured = await measurePods([away, good], cells(), never);
    assert.deepEqual(
      measured.map(({ uid }) => uid),
      ["a"],
    );
  });
});

describe("countProbes()", () => {
  it("gives each pod's counts; an older agent has none", async () => {
    const probes = [{ container: "main", kind: "Readiness", successful: 7, failed: 1 }] as const;
    const agents = [stats, { ...stats, probes }].map(
      (answer) => ({ stats: async () => answer }) as unknown as AgentClient, // the methods that are called
    );
    const pods = agents.map((agent, index) => ({
      uid: `u${index}`,
      agent,
      report: undefined,
      pod,
    }));
    assert.deepEqual(await countProbes(pods, cells(), never), [
      { uid: "u1", container: "main", kind: "Readiness", successful: 7, failed: 1 },
    ]);
  });
});

describe("podUsage(), of all that an agent measures", () => {
  const room = { sizeBytes: 1000, freeBytes: 600, inodes: 100, freeInodes: 90 };
  const time = "2026-01-01T00:00:55Z";
  const timeMs = Date.parse(stats.time);
  const counters = {
    receivedBytes: 1,
    receivedPackets: 2,
    receivedErrors: 3,
    receivedDropped: 4,
    sentBytes: 5,
    sentPackets: 6,
    sentErrors: 7,
    sentDropped: 8,
  };
  const everything: AgentStats = {
    ...stats,
    containers: {
      main: { ...stats.containers["main"]!, rssBytes: 70, pageFaults: 9 },
      other: stats.containers["other"]!,
    },
    pod: { cpuUsageNanoseconds: 6e9, memoryUsageBytes: 400, memoryWorkingSetBytes: 350 },
    interfaces: [
      { name: "eth0", ...counters },
      { name: "eth0", ...counters },
    ],
    disk: {
      time: "2026-01-01T00:00:58Z",
      ...room,
      mounts: { data: { ...room, freeBytes: 250 }, strange: room },
      walk: {
        time,
        pod: { bytes: 50, inodes: 5 },
        containers: {
          main: { files: { bytes: 20, inodes: 2 }, logs: { bytes: 10, inodes: 1 } },
          other: { files: { bytes: 1, inodes: 1 }, logs: { bytes: 1, inodes: 1 } },
        },
        volumes: { data: { bytes: 1, inodes: 1 }, strange: { bytes: 1, inodes: 1 } },
      },
    },
  };
  const agent = { stats: async () => everything } as unknown as AgentClient; // the methods that are called

  it("has the cgroup's figures, the network and the disk, with the time of each", async () => {
    const measured = await measurePods(
      [{ uid: "a", agent, report: undefined, pod }],
      cells(),
      never,
    );
    const onDisk = { timeMs: Date.parse(time), ...room };
    assert.deepEqual(measured, [
      {
        uid: "a",
        containers: [
          {
            name: "main",
            timeMs,
            cpuNanoseconds: 5e9,
            memoryBytes: 300,
            workingSetBytes: 200,
            rssBytes: 70,
            pageFaults: 9,
            rootFileSystem: { ...onDisk, usedBytes: 20, usedInodes: 2 },
            logs: { ...onDisk, usedBytes: 10, usedInodes: 1 },
          },
        ],
        total: { timeMs, cpuNanoseconds: 6e9, memoryBytes: 400, workingSetBytes: 350 },
        network: {
          timeMs,
          receivedBytes: 1,
          sentBytes: 5,
          interfaces: [{ name: "eth0", ...counters }],
        },
        volumes: [
          {
            name: "data",
            timeMs: Date.parse("2026-01-01T00:00:58Z"),
            ...room,
            freeBytes: 250,
            usedBytes: 750,
            usedInodes: 10,
          },
        ],
        ephemeralStorage: { ...onDisk, usedBytes: 50, usedInodes: 5 },
      },
    ]);
  });

  it("does not know what files take before the first walk", async () => {
    const { walk: _walk, ...disk } = everything.disk!;
    const { ephemeralStorage } = podUsage("a", { ...everything, disk }, undefined);
    assert.deepEqual(ephemeralStorage, {
      timeMs: Date.parse(disk.time),
      ...room,
      usedBytes: undefined,
      usedInodes: undefined,
    });
  });
});

describe("CellStats", () => {
  it("asks a cell once in five seconds for all callers, and again after a failure", async () => {
    const clock = new ManualClock();
    const source = new CellStats({ clock, logger: silentLogger });
    let asked = 0;
    let fails = true;
    const agent = {
      stats: async () => {
        asked++;
        if (fails) throw new Error("away");
        return stats;
      },
    } as unknown as AgentClient; // the methods that are called
    const pods = [{ uid: "a", agent, report: undefined, pod }];
    assert.equal((await measurePods(pods, source, never)).length, 0);
    fails = false;
    const answers = await Promise.all([
      measurePods(pods, source, never),
      countProbes(pods, source, never),
    ]);
    assert.equal(answers[0].length, 1);
    await measurePods(pods, source, never);
    assert.equal(asked, 2);
    await clock.advance(5000);
    await measurePods(pods, source, never);
    assert.equal(asked, 3);
  });

  it("asks at most 200 of many cells at the same moment, and gets all of them", async () => {
    let now = 0;
    let most = 0;
    const pods = Array.from({ length: 500 }, (_, index) => {
      const agent = {
        stats: async () => {
          most = Math.max(most, ++now);
          await new Promise(setImmediate);
          now--;
          return stats;
        },
      } as unknown as AgentClient; // the methods that are called
      return { uid: `u${index}`, agent, report: undefined, pod };
    });
    assert.equal((await measurePods(pods, cells(), never)).length, 500);
    assert.equal(most, 200);
  });

  it("gives what it has when cells that hang take all the time", async () => {
    const clock = new ManualClock();
    const source = new CellStats({ clock, logger: silentLogger });
    const good = { stats: async () => stats } as unknown as AgentClient; // the methods that are called
    const hanging = Array.from({ length: 1000 }, (_, index) => {
      const agent = {
        stats: async () => await new Promise<never>(() => {}),
      } as unknown as AgentClient; // the methods that are called
      return { uid: `h${index}`, agent, report: undefined, pod };
    });
    const pods = [{ uid: "good", agent: good, report: undefined, pod }, ...hanging];
    const measured = measurePods(pods, source, never);
    for (let second = 0; second < 12; second++) {
      await new Promise(setImmediate);
      await clock.advance(1000);
    }
    assert.deepEqual(
      (await measured).map(({ uid }) => uid),
      ["good"],
    );
  });
});
