import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { suite, test } from "node:test";
import { silentLogger } from "@kip/base";
import { createEc2Source, ImdsClient, type DataSource } from "@kip/cloud-init";
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
    // As if the agent was killed before it deleted the folder.
    await mkdir(seed);
    await writeFile(path.join(seed, "user-data"), "secret");
    await applySeedOnce(options);
    assert.equal(existsSync(seed), false);
  });

  test("asks the metadata service where there is no seed disk, and not where there is one", async () => {
    using directory = temporaryFolder();
    const file = (content: string) => ({ path: "/identity.json", content, permissions: "0600" });
    const userData = (content: string) =>
      `#cloud-config\n${JSON.stringify({ write_files: [file(content)] })}`;
    const data = { instanceId: "i-2", userData: Buffer.from(userData("metadata")) };
    const metadata: DataSource = {
      name: "EC2",
      isAvailable: async () => await Promise.resolve(true),
      read: async () => await Promise.resolve({ ...data, publicKeys: [], addresses: {} }),
    };
    const options = { directory: directory.path, root: directory.path, logger: silentLogger };
    const target = path.join(directory.path, "identity.json");
    await applySeedOnce({ ...options, metadata });
    assert.equal(await readFile(target, "utf8"), "metadata");
    await rm(path.join(directory.path, "seed-applied"));
    const seed = path.join(directory.path, "seed");
    await mkdir(seed);
    await writeFile(path.join(seed, "meta-data"), '{"instance-id": "i-1"}');
    await writeFile(path.join(seed, "user-data"), userData("disk"));
    await applySeedOnce({ ...options, metadata });
    assert.equal(await readFile(target, "utf8"), "disk");
  });

  test("says that neither is there", async () => {
    using directory = temporaryFolder();
    const client = new ImdsClient({ baseUrl: "http://127.0.0.1:1", attempts: 1 });
    const options = { directory: directory.path, metadata: createEc2Source(client) };
    await assert.rejects(applySeedOnce({ ...options, logger: silentLogger }), {
      code: "METADATA_UNAVAILABLE",
    });
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
