import assert from "node:assert/strict";
import { rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { suite, test } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { readBootResults, writeBootResults } from "./boot-results.ts";

suite("readBootResults", () => {
  test("reads seconds, gives milliseconds", async () => {
    using directory = temporaryFolder();
    const file = path.join(directory.path, "boot-timings");
    await writeFile(file, '{"userspace": 1.72, "network": 1.87}\n');
    assert.deepEqual(await readBootResults(directory.path), {
      timingsMs: { userspace: 1720, network: 1870 },
      startedAtMs: 0,
    });
  });

  test("waits for the boot script", async () => {
    using directory = temporaryFolder();
    const waiting = readBootResults(directory.path);
    const part = path.join(directory.path, "boot-timings.part");
    await writeFile(part, '{"network": 2}');
    await rename(part, path.join(directory.path, "boot-timings"));
    assert.deepEqual((await waiting).timingsMs, { network: 2000 });
  });

  test("reads what a copy of a template has left", async () => {
    using directory = temporaryFolder();
    const results = { timingsMs: { identity: 20 }, startedAtMs: 5000 };
    writeBootResults(directory.path, results);
    assert.deepEqual(await readBootResults(directory.path), results);
  });
});
