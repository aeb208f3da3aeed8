import assert from "node:assert/strict";
import { mkdtempDisposable, rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { suite, test } from "node:test";
import { bootTimingsMs } from "./boot-results.ts";

suite("bootTimingsMs", () => {
  test("reads seconds, gives milliseconds", async () => {
    await using directory = await mkdtempDisposable(path.join(tmpdir(), "boot-"));
    const file = path.join(directory.path, "boot-timings");
    await writeFile(file, '{"userspace": 1.72, "network": 1.87}\n');
    assert.deepEqual(await bootTimingsMs(directory.path), { userspace: 1720, network: 1870 });
  });

  test("waits for the boot script", async () => {
    await using directory = await mkdtempDisposable(path.join(tmpdir(), "boot-"));
    const waiting = bootTimingsMs(directory.path);
    const part = path.join(directory.path, "boot-timings.part");
    await writeFile(part, '{"network": 2}');
    await rename(part, path.join(directory.path, "boot-timings"));
    assert.deepEqual(await waiting, { network: 2000 });
  });
});
