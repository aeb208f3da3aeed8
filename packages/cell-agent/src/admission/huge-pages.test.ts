import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { reserveHugePages } from "./huge-pages.ts";

const Mi = 2 ** 20;

/** The kernel's files in a folder. A pool that is not given does not exist. */
function kernel(folder: string, pools: readonly string[]) {
  for (const pool of pools) {
    mkdirSync(`${folder}/${pool}`);
    writeFileSync(`${folder}/${pool}/nr_hugepages`, "0\n");
  }
  writeFileSync(`${folder}/compact_memory`, "");
  return { pools: folder, compaction: `${folder}/compact_memory` };
}

describe("reserveHugePages()", () => {
  it("asks the kernel for as many pages of each size as the pod has", async () => {
    using folder = temporaryFolder();
    const places = kernel(folder.path, ["hugepages-2048kB", "hugepages-1048576kB"]);
    const wanted = [
      { pageBytes: 2 * Mi, bytes: 64 * Mi },
      { pageBytes: 1024 * Mi, bytes: 1024 * Mi },
    ];
    assert.equal(await reserveHugePages(wanted, places), undefined);
    const count = (pool: string) => readFileSync(`${folder.path}/${pool}/nr_hugepages`, "utf8");
    assert.deepEqual([count("hugepages-2048kB"), count("hugepages-1048576kB")], ["32", "1"]);
    assert.equal(readFileSync(places.compaction, "utf8"), "");
  });

  it("has the kernel move memory when pages are missing, then refuses in the kubelet's words", async () => {
    using folder = temporaryFolder();
    const places = kernel(folder.path, []);
    mkdirSync(`${folder.path}/hugepages-2048kB`);
    // Accepts writes and has no content, like a kernel without a free page.
    symlinkSync("/dev/null", `${folder.path}/hugepages-2048kB/nr_hugepages`);
    const rejection = await reserveHugePages([{ pageBytes: 2 * Mi, bytes: 4 * Mi }], places);
    assert.equal(
      rejection?.message,
      "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0",
    );
    assert.equal(readFileSync(places.compaction, "utf8"), "1");
  });

  it("refuses sizes that the machine does not have", async () => {
    using folder = temporaryFolder();
    const places = kernel(folder.path, ["hugepages-2048kB"]);
    assert.deepEqual(await reserveHugePages([{ pageBytes: 1024 * Mi, bytes: 2048 * Mi }], places), {
      reason: "OutOfhugepages-1Gi",
      message:
        "Node didn't have enough resource: hugepages-1Gi, requested: 2147483648, used: 0, capacity: 0",
    });
  });
});
