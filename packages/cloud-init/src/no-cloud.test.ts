import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { CloudInitError } from "./errors.ts";
import { createNoCloudSource, readNoCloudSeed } from "./no-cloud.ts";

describe("readNoCloudSeed()", () => {
  it("reads both files; user data may be missing", async () => {
    using seed = temporaryFolder();
    const metaData = { "instance-id": "i-1", "local-hostname": "cell-1" };
    await writeFile(path.join(seed.path, "meta-data"), JSON.stringify(metaData));
    const { userData, ...rest } = await readNoCloudSeed(seed.path);
    assert.deepEqual(rest, { instanceId: "i-1", localHostname: "cell-1", publicKeys: [] });
    assert.equal(userData.length, 0);
  });

  it("reads meta-data in YAML, with keys as a list or by name", async () => {
    using seed = temporaryFolder();
    const key = "ssh-ed25519 AAAA a@b";
    for (const keys of [`\n  - ${key}`, `\n  mine: ${key}`]) {
      await writeFile(path.join(seed.path, "meta-data"), `instance-id: i-1\npublic-keys:${keys}\n`);
      assert.deepEqual((await readNoCloudSeed(seed.path)).publicKeys, [key]);
    }
  });

  for (const metaData of ["{}", "instance-id:\n", "[", "- a", "instance-id: [1]"]) {
    it(`refuses the meta-data ${JSON.stringify(metaData)}, which has no instance-id`, async () => {
      using seed = temporaryFolder();
      await writeFile(path.join(seed.path, "meta-data"), metaData);
      await assert.rejects(readNoCloudSeed(seed.path), (error) =>
        CloudInitError.is(error, "SEED_INVALID"),
      );
    });
  }
});

describe("createNoCloudSource()", () => {
  it("is available once there is a seed", async () => {
    using seed = temporaryFolder();
    const { signal } = new AbortController();
    const source = createNoCloudSource(seed.path);
    assert.equal(await source.isAvailable(signal), false);
    await writeFile(path.join(seed.path, "meta-data"), "instance-id: i-1\n");
    assert.equal(await source.isAvailable(signal), true);
    assert.equal((await source.read(signal)).instanceId, "i-1");
  });
});
