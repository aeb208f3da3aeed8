import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { longestReport, type ContainerReport, type PodReport } from "@kip/agent-api";
import { reportLine } from "./report-line.ts";

const time = "2026-01-01T00:00:00Z";
const image = "registry.example.com/team/application";

function reportOf(containers: number, message: string, groups = 1): PodReport {
  const terminated = { exitCode: 1, reason: "Error", message, startedAt: time, finishedAt: time };
  const one = (name: string): ContainerReport => ({
    name,
    terminated,
    lastTerminated: terminated,
    ready: false,
    started: false,
    restartCount: 1,
    image: `${image}:1.2.3`,
    imageId: `${image}@sha256:${"a".repeat(64)}`,
    containerId: `crun://${"a".repeat(64)}`,
    user: { uid: 0, gid: 0, groups: Array.from({ length: groups }, (_, n) => 1e9 + n) },
  });
  return {
    podUid: "p",
    generation: 1,
    phase: "Running",
    startTime: time,
    initContainers: [],
    containers: Array.from({ length: containers }, (_, n) => one(`container-${n}`)),
    ephemeralContainers: [],
    events: Array.from({ length: 400 }, (_, n) => ({
      sequence: n + 1,
      type: "Warning" as const,
      reason: "Unhealthy",
      message: message.slice(0, 250),
      time,
    })),
    timingsMs: {},
  };
}

describe("reportLine()", () => {
  it("is one that kip can read, whatever the programs of the pod print", () => {
    for (const text of ["\u0001", "\u6f22", '"'])
      for (const [containers, length, groups] of [
        [1, 4096, 1000],
        [70, 4096, 1],
        [1000, 300, 1],
        [1000, 300, 300],
      ] as const) {
        const line = reportLine(reportOf(containers, text.repeat(length), groups));
        assert.ok(Buffer.byteLength(line) <= longestReport(containers) + 1);
        assert.ok(line.endsWith("\n"));
        const shown = JSON.parse(line) as PodReport;
        assert.equal(shown.containers.length, containers);
        assert.equal(shown.events.at(-1)?.sequence, 400);
      }
  });

  it("is one that kip can read of a pod with absurd names of images", () => {
    const report = reportOf(2, "");
    const [one] = report.containers;
    assert.ok(one);
    const containers = [{ ...one, image: "i".repeat(700_000) }];
    const line = reportLine({ ...report, containers });
    assert.ok(Buffer.byteLength(line) <= longestReport(1) + 1);
    assert.equal((JSON.parse(line) as PodReport).containers[0]?.image.length, 1024);
  });

  it("changes nothing of a thousand containers that have ended twice without a word", () => {
    const report = reportOf(1000, "");
    assert.equal(reportLine(report), `${JSON.stringify(report)}\n`);
  });

  it("keeps what kip shows of the last words of many containers", () => {
    const { containers } = JSON.parse(
      reportLine(reportOf(100, "\u0001".repeat(4096))),
    ) as PodReport;
    for (const { terminated } of containers) assert.equal(terminated?.message?.length, 1000);
  });
});
