import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { AgentClient, AgentStats, PodReport } from "@kip/agent-api";
import { ManualClock } from "@kip/testing";
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

const names = new Set(["main"]);

describe("podUsage()", () => {
  it("gives each container its figures and its start, if it is known", () => {
    const running = { startedAt: "2026-01-01T00:00:00Z" };
    const report = {
      containers: [{ name: "main", running }, { name: "ended" }],
      initContainers: [],
      ephemeralContainers: [],
    } as unknown as PodReport; // all that is looked at
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

const options = { clock: new ManualClock(), logger: silentLogger };

describe("measurePods()", () => {
  it("hostile cell: has no figures of containers that its pod does not have, and one count per probe", async () => {
    const count = { container: "main", kind: "Liveness", successful: 1, failed: 1 } as const;
    const probes = [count, { ...count, container: "other" }, { ...count, successful: 2 }];
    const agent = { stats: async () => ({ ...stats, probes }) } as unknown as AgentClient; // all that is called
    const pods = [{ uid: "a", agent, report: undefined, containers: names }];
    const never = new AbortController().signal;
    const [usage] = await measurePods(pods, { ...options, signal: never });
    assert.deepEqual(
      usage?.containers.map(({ name }) => name),
      ["main"],
    );
    const counted = await countProbes(pods, { ...options, signal: never });
    assert.deepEqual(counted, [{ ...count, successful: 2, uid: "a" }]);
  });

  it("leaves out cells that do not answer", async () => {
    const agent = (answer: () => Promise<AgentStats>): AgentClient =>
      ({ stats: answer }) as unknown as AgentClient; // all that is called
    const good = {
      uid: "a",
      agent: agent(async () => stats),
      report: undefined,
      containers: names,
    };
    const away = {
      uid: "b",
      agent: agent(async () => await Promise.reject(new Error("away"))),
      report: undefined,
      containers: names,
    };
    const measured = await measurePods([away, good], {
      ...options,
      signal: new AbortController().signal,
    });
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
      (answer) => ({ stats: async () => answer }) as unknown as AgentClient, // all that is called
    );
    const pods = agents.map((agent, index) => ({
      uid: `u${index}`,
      agent,
      report: undefined,
      containers: names,
    }));
    assert.deepEqual(
      await countProbes(pods, { ...options, signal: new AbortController().signal }),
      [{ uid: "u1", container: "main", kind: "Readiness", successful: 7, failed: 1 }],
    );
  });
});
