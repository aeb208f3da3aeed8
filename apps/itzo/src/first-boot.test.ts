import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { suite, test } from "node:test";
import { silentLogger } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { applySeed, applySeedOnce } from "./first-boot.ts";

suite("applySeedOnce", () => {
  test("applies the seed, deletes it, and does nothing the second time", async () => {
    using directory = temporaryFolder();
    const seed = path.join(directory.path, "seed");
    const target = path.join(directory.path, "identity.json");
    const config = { write_files: [{ path: target, content: "{}", permissions: "0600" }] };
    await mkdir(seed);
    await writeFile(path.join(seed, "meta-data"), '{"instance-id": "i-1"}');
    await writeFile(path.join(seed, "user-data"), `#cloud-config\n${JSON.stringify(config)}`);
    const options = {
      directory: directory.path,
      workspace: `${seed}-workspace`,
      logger: silentLogger,
    };
    await applySeedOnce(options);
    assert.equal(await readFile(target, "utf8"), "{}");
    assert.equal(existsSync(seed), false);
    await applySeedOnce(options);
    // Killed before it was deleted.
    await mkdir(seed);
    await writeFile(path.join(seed, "user-data"), "secret");
    await applySeedOnce(options);
    assert.equal(existsSync(seed), false);
  });

  test("says that there is no seed", async () => {
    using directory = temporaryFolder();
    const options = { directory: directory.path, logger: silentLogger };
    await assert.rejects(applySeedOnce(options), { code: "SEED_INVALID" });
  });
});

suite("applySeed", () => {
  test("leaves alone what the user data wrote when the machine is started again", async () => {
    using root = temporaryFolder();
    const apply = async (instanceId: string): Promise<string> => {
      using boot = temporaryFolder();
      const config = { write_files: [{ path: "/identity.json", content: "issued" }] };
      const userData = Buffer.from(`#cloud-config\n${JSON.stringify(config)}`);
      const options = { directory: boot.path, root: root.path, logger: silentLogger };
      await applySeed({ instanceId, userData }, options);
      return await readFile(path.join(root.path, "identity.json"), "utf8");
    };
    assert.equal(await apply("i-1"), "issued");
    await writeFile(path.join(root.path, "identity.json"), "renewed");
    assert.equal(await apply("i-1"), "renewed");
    // A copy of the disk is another machine.
    assert.equal(await apply("i-2"), "issued");
  });
});
