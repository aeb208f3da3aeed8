import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { suite, test } from "node:test";
import { silentLogger } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { applySeedOnce } from "./first-boot.ts";

suite("applySeedOnce", () => {
  test("applies the seed, deletes it, and does nothing the second time", async () => {
    using directory = temporaryFolder();
    const seed = path.join(directory.path, "seed");
    const target = path.join(directory.path, "identity.json");
    const config = { write_files: [{ path: target, content: "{}", permissions: "0600" }] };
    await mkdir(seed);
    await writeFile(path.join(seed, "meta-data"), '{"instance-id": "i-1"}');
    await writeFile(path.join(seed, "user-data"), `#cloud-config\n${JSON.stringify(config)}`);
    await applySeedOnce(directory.path, silentLogger);
    assert.equal(await readFile(target, "utf8"), "{}");
    assert.equal(existsSync(seed), false);
    await applySeedOnce(directory.path, silentLogger);
    // Killed before it was deleted.
    await mkdir(seed);
    await writeFile(path.join(seed, "user-data"), "secret");
    await applySeedOnce(directory.path, silentLogger);
    assert.equal(existsSync(seed), false);
  });

  test("says that there is no seed", async () => {
    using directory = temporaryFolder();
    await assert.rejects(applySeedOnce(directory.path, silentLogger), { code: "SEED_INVALID" });
  });
});
