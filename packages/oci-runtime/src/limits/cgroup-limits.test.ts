import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { cgroupFiles, cpuWeight, limitCgroup, makeCgroup, memoryUsage } from "./cgroup-limits.ts";

describe("cgroupFiles()", () => {
  it("has the kubelet's values, and the kernel's for no limit", () => {
    assert.deepEqual(
      cgroupFiles({ cpuMilliLimit: 1500, cpuMilliRequest: 250, memoryBytesLimit: 2 ** 26 }),
      { "memory.max": "67108864", "cpu.max": "150000 100000", "cpu.weight": "10" },
    );
    assert.deepEqual(cgroupFiles({}), {
      "memory.max": "max",
      "cpu.max": "max 100000",
      "cpu.weight": "1",
    });
  });

  it("limits the use of huge pages, and their reservation, by the kernel's names of their sizes", () => {
    const hugePages = [
      { pageBytes: 64 * 2 ** 10, bytes: 0 },
      { pageBytes: 2 * 2 ** 20, bytes: 2 ** 25 },
      { pageBytes: 2 ** 30, bytes: 2 ** 31 },
    ];
    const {
      "memory.max": _memory,
      "cpu.max": _cpu,
      "cpu.weight": _weight,
      ...files
    } = cgroupFiles({ hugePages });
    assert.deepEqual(files, {
      "hugetlb.64KB.max": "0",
      "hugetlb.64KB.rsvd.max": "0",
      "hugetlb.2MB.max": "33554432",
      "hugetlb.2MB.rsvd.max": "33554432",
      "hugetlb.1GB.max": "2147483648",
      "hugetlb.1GB.rsvd.max": "2147483648",
    });
  });
});

describe("cpuWeight()", () => {
  it("goes from 1 to 10000", () => {
    assert.deepEqual([0, 100, 1000, 1e9].map(cpuWeight), [1, 4, 39, 10_000]);
  });
});

describe("limitCgroup()", () => {
  it("writes the files of a cgroup that is there, and makes none", () => {
    using root = temporaryFolder();
    makeCgroup("/kip/pod", root.path);
    const folder = `${root.path}/kip/pod`;
    assert.throws(() => limitCgroup("/kip/pod", {}, root.path), { code: "ENOENT" });
    for (const file of Object.keys(cgroupFiles({}))) writeFileSync(`${folder}/${file}`, "");
    limitCgroup("/kip/pod", { memoryBytesLimit: 4096 }, root.path);
    assert.equal(readFileSync(`${folder}/memory.max`, "utf8"), "4096");
  });
});

describe("memoryUsage()", () => {
  it("is that of the cgroup, and undefined where there is none", () => {
    using root = temporaryFolder();
    mkdirSync(`${root.path}/a`);
    writeFileSync(`${root.path}/a/memory.current`, "8192\n");
    assert.deepEqual(
      ["/a", "/b"].map((one) => memoryUsage(one, root.path)),
      [8192, undefined],
    );
  });
});
