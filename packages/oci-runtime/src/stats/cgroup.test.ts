import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { flatKeys, readCgroupUsage } from "./cgroup.ts";

describe("flatKeys()", () => {
  it("finds whole keys only", () => {
    const keys = flatKeys("low 0\noom 1\noom_kill 2\noom_group_kill 3\n");
    assert.equal(keys.get("oom"), 1);
    assert.equal(keys.get("oom_kill"), 2);
    assert.equal(keys.get("kill"), undefined);
    assert.equal(flatKeys("").size, 0);
  });
});

function cgroup(files: Readonly<Record<string, string>>) {
  const folder = temporaryFolder();
  mkdirSync(`${folder.path}/a`);
  for (const [name, text] of Object.entries(files))
    writeFileSync(`${folder.path}/a/${name}`, `${text}\n`);
  return folder;
}

const pressure = (total: number) =>
  `some avg10=1.50 avg60=0.20 avg300=0.03 total=${total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7`;

describe("readCgroupUsage()", () => {
  it("reads what cAdvisor reads, from Linux 6.1's files", () => {
    using folder = cgroup({
      "cpu.stat":
        "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 9\nnr_throttled 4\nthrottled_usec 60",
      "cpu.max": "50000 100000",
      "memory.current": "8192",
      "memory.max": "1048576",
      "memory.peak": "9000",
      "memory.stat":
        "anon 4096\nfile 3000\nkernel 500\nfile_mapped 100\ninactive_file 1000\nactive_file 2000\npgfault 70\npgmajfault 6",
      "memory.swap.current": "0",
      "memory.swap.max": "max",
      "memory.events": "low 0\nhigh 0\nmax 0\noom 2\noom_kill 1\noom_group_kill 0",
      "cgroup.procs": "12\n15",
      "pids.current": "3",
      "pids.max": "max",
      "cpu.pressure": pressure(11),
      "memory.pressure": pressure(12),
      "io.pressure": pressure(13),
      "io.stat": "9999:7 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n9999:8 ",
    });
    const stalled = { totalMicroseconds: 7, avg10: 0, avg60: 0, avg300: 0 };
    const waited = (totalMicroseconds: number) => ({
      some: { totalMicroseconds, avg10: 1.5, avg60: 0.2, avg300: 0.03 },
      full: stalled,
    });
    assert.deepEqual(readCgroupUsage("/a", folder.path), {
      cpuUsageNanoseconds: 5_000_000,
      cpuUserNanoseconds: 3_000_000,
      cpuSystemNanoseconds: 2_000_000,
      cpuPeriods: 9,
      cpuThrottledPeriods: 4,
      cpuThrottledNanoseconds: 60_000,
      cpuQuotaMicroseconds: 50_000,
      cpuPeriodMicroseconds: 100_000,
      memoryUsageBytes: 8192,
      memoryWorkingSetBytes: 7192,
      memoryLimitBytes: 1_048_576,
      memoryPeakBytes: 9000,
      rssBytes: 4096,
      cacheBytes: 3000,
      kernelBytes: 500,
      mappedFileBytes: 100,
      activeFileBytes: 2000,
      inactiveFileBytes: 1000,
      pageFaults: 70,
      majorPageFaults: 6,
      swapBytes: 0,
      oomKills: 1,
      processes: 2,
      threads: 3,
      cpuPressure: waited(11),
      memoryPressure: waited(12),
      ioPressure: waited(13),
      devices: [{ device: "9999:7", readBytes: 1, writtenBytes: 2, reads: 3, writes: 4 }],
    });
  });

  it("leaves out what the kernel does not have, and never shows a cgroup that has gone as idle", () => {
    using folder = cgroup({
      "cpu.stat": "usage_usec 5",
      "cpu.max": "max 100000",
      "memory.current": "1",
    });
    assert.deepEqual(readCgroupUsage("/a", folder.path), {
      cpuUsageNanoseconds: 5000,
      cpuPeriodMicroseconds: 100_000,
      memoryUsageBytes: 1,
      memoryWorkingSetBytes: 1,
    });
    assert.throws(() => readCgroupUsage("/gone", folder.path), { code: "ENOENT" });
  });
});
