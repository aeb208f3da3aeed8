import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { cacheFolder, type MountShare } from "./cache-folder.ts";

const logger = silentLogger;

describe("cacheFolder()", () => {
  it("is a folder that is there, or a share that is mounted once", async () => {
    using work = temporaryFolder();
    const folder = path.join(work.path, "cache");
    const calls: unknown[] = [];
    const mountShare: MountShare = async (...call) => void calls.push(call);
    const find = cacheFolder({ logger, clock: systemClock, mountShare });
    assert.equal(await find({ path: "/there" }), "/there");
    const share = { path: folder, nfs: "127.0.0.1:/data", options: ["vers=4.1"] };
    assert.deepEqual(await Promise.all([find(share), find(share)]), [folder, folder]);
    assert.ok(existsSync(folder));
    assert.equal(calls.length, 1);
    const [[server, directory, options]] = calls as [Parameters<MountShare>]; // pushed above
    assert.deepEqual([server, directory], [{ address: "127.0.0.1", path: "/data" }, folder]);
    assert.ok(options.includes("ro") && options.at(-1) === "vers=4.1");
  });

  it("is none for a minute when the share cannot be mounted", async () => {
    using work = temporaryFolder();
    let tries = 0;
    const mountShare: MountShare = async () => {
      tries++;
      throw new Error("no route");
    };
    const clock = new ManualClock();
    const find = cacheFolder({ logger, clock, mountShare });
    const share = { path: work.path, nfs: "[::1]:/data" };
    assert.equal(await find(share), undefined);
    assert.equal(await find(share), undefined);
    assert.equal(tries, 1);
    await clock.advance(60_000);
    assert.equal(await find(share), undefined);
    assert.equal(tries, 2);
    await clock.advance(60_000);
    assert.equal(await find({ path: work.path, nfs: "no share" }), undefined);
    assert.equal(tries, 2);
  });
});
