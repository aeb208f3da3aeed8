import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { DecodeError } from "@kip/base";
import * as fc from "fast-check";
import { growth } from "@kip/base/testing";
import { decodeAnswer } from "./answers.ts";
import { decodeAgentStats } from "./agent-stats.ts";
import { maxLineBytes } from "./latest-line.ts";
import { decodePodReport } from "./pod-report.ts";

const time = "2026-01-01T00:00:00Z";
const ended = { exitCode: 1, reason: "Error", finishedAt: time };
const main = { name: "main", image: "i", ready: false, started: false, restartCount: 0 };
const event = { sequence: 1, type: "Normal", reason: "Started", message: "m", time };
const report = {
  podUid: "p",
  generation: 1,
  phase: "Running",
  startTime: time,
  initContainers: [],
  containers: [{ ...main, terminated: ended }],
  ephemeralContainers: [],
  events: [event],
  timingsMs: {},
};

function isRefused(make: () => unknown): void {
  assert.throws(make, (error) => DecodeError.is(error, "DECODE_FAILED"));
}

describe("decodePodReport()", () => {
  it("hostile cell: has no exit code, count or time that the API would not take", () => {
    assert.deepEqual(decodePodReport(report, ""), report);
    const container = (change: object) => ({ ...report, containers: [{ ...main, ...change }] });
    for (const exitCode of [2 ** 31, -(2 ** 31) - 1, 1e300, 0.5, "1"])
      isRefused(() => decodePodReport(container({ terminated: { ...ended, exitCode } }), ""));
    for (const restartCount of [-1, 2 ** 31])
      isRefused(() => decodePodReport(container({ restartCount }), ""));
    for (const startedAt of ["", "now", "2026-13-01T00:00:00Z", "2026-01-01", `${time}\n`]) {
      isRefused(() => decodePodReport(container({ running: { startedAt } }), ""));
      isRefused(() => decodePodReport({ ...report, startTime: startedAt }, ""));
    }
    isRefused(() => decodePodReport({ ...report, timingsMs: { start: 1e300 } }, ""));
    const user = { uid: 2 ** 31 - 1, gid: 0, groups: [] };
    assert.ok(decodePodReport(container({ user }), ""));
    const manyGroups = Array.from({ length: 1001 }, (_, id) => id);
    for (const change of [
      { uid: 2 ** 31 },
      { gid: 2 ** 31 },
      { groups: [2 ** 31] },
      { groups: manyGroups },
    ])
      isRefused(() => decodePodReport(container({ user: { ...user, ...change } }), ""));
    for (const amount of [-1, 0.5, 1e300, "1"]) {
      isRefused(() => decodePodReport(container({ allocated: { cpuMilliLimit: amount } }), ""));
      isRefused(() => decodePodReport(container({ actuated: { memoryBytesLimit: amount } }), ""));
    }
  });

  it("hostile cell: has the timings that there are, and no others", () => {
    const timingsMs = { pull: 1, start: 2, other: 3 };
    assert.deepEqual(decodePodReport({ ...report, timingsMs }, "").timingsMs, {
      pull: 1,
      start: 2,
    });
  });

  it("hostile cell: has no more containers than pods have, and looks at none of too many", () => {
    for (const list of ["initContainers", "containers", "ephemeralContainers"]) {
      const count = (length: number) => ({ ...report, [list]: Array.from({ length }, () => main) });
      assert.ok(decodePodReport(count(1000), ""));
      isRefused(() => decodePodReport(count(1001), ""));
      const looked = { name: { toString: () => assert.fail("was looked at") } };
      isRefused(() =>
        decodePodReport({ ...report, [list]: Array.from({ length: 1001 }, () => looked) }, ""),
      );
    }
  });

  it("hostile cell: takes linear time for a report of the largest size", async () => {
    const decode = (size: number): void => {
      const text = "\u009b".repeat(Math.ceil(size / 6000));
      const events = Array.from({ length: Math.ceil(size / 100) }, () => event);
      const containers = Array.from({ length: Math.ceil(size / 3000) }, () => ({
        ...main,
        name: text,
      }));
      const timingsMs = Object.fromEntries(events.map((_, index) => [`t${index}`, index]));
      decodePodReport({ ...report, message: text, containers, events, timingsMs }, "");
    };
    assert.ok((await growth(decode, maxLineBytes)) < 40);
  });

  it("CVE-2021-25743: has short texts, and none that moves a terminal's cursor", () => {
    const message = `\u001b]0;owned\u0007\u001b[2Jall is well\r\u009b\u202e\n\tdone\r\n${"x".repeat(1e5)}`;
    const decoded = decodePodReport(
      {
        ...report,
        message,
        containers: [
          { ...main, name: message, terminated: { ...ended, message, reason: message } },
        ],
        events: [{ ...event, message }],
      },
      "",
    );
    const { name, terminated } = decoded.containers[0] ?? {};
    const texts = [decoded.message, decoded.events[0]?.message, terminated?.message];
    for (const text of [...texts, name, terminated?.reason]) {
      assert.equal(
        text?.replace(/x+$/, ""),
        "\ufffd]0;owned\ufffd\ufffd[2Jall is well\ufffd\ufffd\ufffd\n\tdone\r\n",
      );
      assert.ok((text?.length ?? 0) <= 4096);
    }
    assert.equal(terminated?.reason.length, 128);
  });

  it("hostile cell: keeps no more of long texts in memory than is shown", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const usedBytes = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const message = `\u2713${"a".repeat(maxLineBytes / 2)}`;
    const line = JSON.stringify({ ...report, message, events: [{ ...event, message }] });
    const before = usedBytes();
    const reports = Array.from({ length: 20 }, () => decodeAnswer(line, decodePodReport));
    const each = (usedBytes() - before) / reports.length;
    assert.ok(each < 100_000, `${each} bytes`);
    assert.equal(reports[0]?.message, message.slice(0, 4096));
  });

  it("hostile cell: has the newest four hundred events at most", () => {
    const events = Array.from({ length: 5000 }, (_, index) => ({ ...event, sequence: index }));
    const decoded = decodePodReport({ ...report, events }, "").events;
    assert.deepEqual([decoded.length, decoded[0]?.sequence], [400, 4600]);
  });

  it("hostile cell: is a report or no report, whatever is in it", () => {
    const fields = Object.fromEntries(Object.keys(report).map((key) => [key, fc.jsonValue()]));
    fc.assert(
      fc.property(fc.record(fields), fc.subarray(Object.keys(report)), (wild, kept) => {
        const own = Object.fromEntries(kept.map((key) => [key, Reflect.get(report, key)]));
        try {
          decodePodReport({ ...wild, ...own }, "");
        } catch (error) {
          if (!DecodeError.is(error, "DECODE_FAILED")) throw error;
        }
      }),
    );
  });
});

describe("decodeAgentStats()", () => {
  const usage = { cpuUsageNanoseconds: 1, memoryUsageBytes: 1, memoryWorkingSetBytes: 1 };
  const stats = { time, containers: { main: usage }, agentRssBytes: 1, agentCpuMicroseconds: 1 };

  it("hostile cell: has no figures that no machine has", () => {
    assert.deepEqual(decodeAgentStats(stats, ""), stats);
    for (const change of [{ memoryUsageBytes: 1e300 }, { cpuUsageNanoseconds: -1 }])
      isRefused(() =>
        decodeAgentStats({ ...stats, containers: { main: { ...usage, ...change } } }, ""),
      );
    isRefused(() => decodeAgentStats({ ...stats, time: "soon" }, ""));
  });

  it("hostile cell: has no more containers and probes than pods have", () => {
    const names = Array.from({ length: 1001 }, (_, index) => [`c${index}`, usage]);
    isRefused(() => decodeAgentStats({ ...stats, containers: Object.fromEntries(names) }, ""));
    isRefused(() =>
      decodeAgentStats({ ...stats, probes: Array.from({ length: 3001 }, () => ({})) }, ""),
    );
  });
});
