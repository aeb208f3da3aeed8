import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { applyUserData } from "./apply-user-data.ts";
import { readNoCloudSeed } from "./no-cloud.ts";
import type { CloudConfig } from "./user-data.ts";
import { CloudInitError } from "./errors.ts";

const nothing: CloudConfig = { writeFiles: [], runCommands: [], warnings: [] };

describe("applyUserData()", () => {
  it("writes files whole, with their mode, and leaves no temporary file", async () => {
    using root = temporaryFolder();
    const content = Buffer.from("secret");
    const writeFiles = [{ path: "/var/lib/x/key", content, mode: 0o400 }];
    const result = await applyUserData({ ...nothing, writeFiles }, { root: root.path });
    assert.deepEqual(result, { written: ["/var/lib/x/key"], errors: [] });
    const folder = path.join(root.path, "var/lib/x");
    assert.deepEqual(await readdir(folder), ["key"]);
    assert.equal(await readFile(path.join(folder, "key"), "utf8"), "secret");
    assert.equal((await stat(path.join(folder, "key"))).mode & 0o7777, 0o400);
  });

  for (const umask of [0o027, 0o077]) {
    it(`lets all users into the folders that it makes, with umask ${umask.toString(8)}`, async () => {
      using root = temporaryFolder();
      const writeFiles = [{ path: "/etc/x/y/file", content: Buffer.from("x"), mode: 0o644 }];
      const before = process.umask(umask);
      try {
        await applyUserData({ ...nothing, writeFiles }, { root: root.path });
      } finally {
        process.umask(before);
      }
      for (const folder of ["etc", "etc/x", "etc/x/y"])
        assert.equal((await stat(path.join(root.path, folder))).mode & 0o7777, 0o755);
    });
  }

  it("replaces a file that is there", async () => {
    using root = temporaryFolder();
    await writeFile(path.join(root.path, "a"), "old");
    const writeFiles = [{ path: "/a", content: Buffer.from("new"), mode: 0o644 }];
    await applyUserData({ ...nothing, writeFiles }, { root: root.path });
    assert.equal(await readFile(path.join(root.path, "a"), "utf8"), "new");
  });

  it("goes on after a failure and reports it", async () => {
    using root = temporaryFolder();
    await mkdir(path.join(root.path, "taken"));
    const content = Buffer.from("x");
    const calls: string[] = [];
    const result = await applyUserData(
      {
        hostname: "cell-1",
        writeFiles: [
          { path: "/taken", content, mode: 0o644 },
          { path: "/unowned", content, mode: 0o644, owner: "no-such-user" },
          { path: "/good", content, mode: 0o644 },
        ],
        runCommands: ["exit 1", ["program", "argument"]],
        warnings: [],
      },
      {
        root: root.path,
        setHostname: async (name) => void calls.push(`hostname ${name}`),
        run: async (file, args) => {
          calls.push([file, ...args].join(" "));
          if (file === "sh") throw new Error("exit code 1");
        },
      },
    );
    assert.deepEqual(result.written, ["/good"]);
    assert.equal(result.errors.length, 3);
    assert.ok(result.errors.every((error) => CloudInitError.is(error, "USER_DATA_APPLY_FAILED")));
    assert.deepEqual(calls, ["hostname cell-1", "sh -c exit 1", "program argument"]);
    assert.deepEqual((await readdir(root.path)).sort(), ["good", "taken"]);
  });
});

describe("readNoCloudSeed()", () => {
  it("reads both files; user data may be missing", async () => {
    using seed = temporaryFolder();
    const metaData = { "instance-id": "i-1", "local-hostname": "cell-1" };
    await writeFile(path.join(seed.path, "meta-data"), JSON.stringify(metaData));
    const { userData, ...rest } = readNoCloudSeed(seed.path);
    assert.deepEqual(rest, { instanceId: "i-1", localHostname: "cell-1" });
    assert.equal(userData.length, 0);
  });

  it("refuses meta-data without an instance-id", async () => {
    using seed = temporaryFolder();
    await writeFile(path.join(seed.path, "meta-data"), "{}");
    assert.throws(
      () => readNoCloudSeed(seed.path),
      (error) => CloudInitError.is(error, "SEED_INVALID"),
    );
  });
});
