import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { applyUserData } from "./apply-user-data.ts";
import { emptyConfig as nothing } from "../config/cloud-config.ts";
import { CloudInitError } from "../errors.ts";

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
    const names: string[] = [];
    const result = await applyUserData(
      {
        ...nothing,
        hostname: "cell-1",
        writeFiles: [
          { path: "/taken", content, mode: 0o644 },
          { path: "/unowned", content, mode: 0o644, owner: "no-such-user" },
          { path: "/good", content, mode: 0o644 },
        ],
        users: [{ name: "no-databases", sshAuthorizedKeys: [], groups: [] }],
        runCommands: ["exit 1"],
      },
      { root: root.path, setHostname: async (name) => void names.push(name) },
    );
    assert.deepEqual(result.written, ["/good"]);
    assert.equal(result.errors.length, 4);
    assert.ok(result.errors.every((error) => CloudInitError.is(error, "USER_DATA_APPLY_FAILED")));
    assert.deepEqual(names, ["cell-1"]);
    assert.deepEqual((await readdir(root.path)).sort(), ["good", "taken", "var"]);
  });

  it("writes the addresses to /etc/environment and keeps its other lines", async () => {
    using root = temporaryFolder();
    await mkdir(path.join(root.path, "etc"));
    const file = path.join(root.path, "etc/environment");
    await writeFile(file, "PATH=/bin\nMILPA_PRIVATE_IPV4=192.0.2.1\n");
    const addresses = { privateIpv4: "10.0.0.5", publicIpv6: "2001:db8::5" };
    await applyUserData(nothing, { root: root.path, addresses });
    assert.equal(
      await readFile(file, "utf8"),
      "PATH=/bin\nMILPA_PRIVATE_IPV4=10.0.0.5\nMILPA_PUBLIC_IPV6=2001:db8::5\n",
    );
  });
});
