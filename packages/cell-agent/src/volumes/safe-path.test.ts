import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import { AgentError } from "@kip/agent-api";
import { pinPath } from "./safe-path.ts";

describe("pinPath()", () => {
  let root = "";
  before(() => {
    root = fs.mkdtempSync(path.join(os.tmpdir(), "kip-pin-"));
    fs.mkdirSync(path.join(root, "volume/..2026"), { recursive: true });
    fs.writeFileSync(path.join(root, "secret"), "secret");
    fs.writeFileSync(path.join(root, "volume/..2026/file"), "content");
    fs.symlinkSync("..2026", path.join(root, "volume/..data"));
    fs.symlinkSync("..data/file", path.join(root, "volume/file"));
    fs.symlinkSync("../secret", path.join(root, "volume/up"));
    fs.symlinkSync("/etc/passwd", path.join(root, "volume/absolute"));
    fs.symlinkSync("loop", path.join(root, "volume/loop"));
    fs.symlinkSync("../..", path.join(root, "volume/..2026/out"));
  });
  after(() => fs.rmSync(root, { recursive: true }));

  const volume = (): string => path.join(root, "volume");

  it("follows links within the volume, as those of a ConfigMap", () => {
    using pinned = pinPath(volume(), "file");
    assert.equal(fs.readFileSync(pinned.path, "utf8"), "content");
    assert.equal(pinned.isDirectory, false);
  });

  it("gives directories that it makes to the pod's own users", (t) => {
    if (process.geteuid?.() !== 0) return t.skip("needs root");
    const place = path.join(volume(), "mine/deep");
    pinPath(volume(), "mine/deep", 65_536)[Symbol.dispose]();
    for (const folder of [path.dirname(place), place]) {
      const { uid, gid } = fs.statSync(folder);
      assert.deepEqual([uid, gid], [65_536, 65_536]);
    }
  });

  it("makes directories that are missing", () => {
    using pinned = pinPath(volume(), "new/deep");
    assert.equal(pinned.isDirectory, true);
    assert.ok(fs.statSync(path.join(volume(), "new/deep")).isDirectory());
  });

  it("gives directories that it makes the whole mode of the volume's root, as a kubelet does", (t) => {
    const { mode } = fs.statSync(volume());
    t.after(() => fs.chmodSync(volume(), mode));
    fs.chmodSync(volume(), 0o3777); // as a tmpfs for a group has
    pinPath(volume(), "shared")[Symbol.dispose]();
    assert.equal(fs.statSync(path.join(volume(), "shared")).mode & 0o7777, 0o3777);
  });

  for (const way of [
    "..",
    "../secret",
    "up",
    "absolute",
    "loop",
    "..data/out/secret",
    "file/../../..",
  ])
    it(`CVE-2017-1002101, kubernetes#56625: refuses "${way}"`, () => {
      assert.throws(() => pinPath(volume(), way), { code: "AGENT_PATH_UNSAFE" });
    });

  it("CVE-2021-25741: stays with what it found when a link is put in its place", () => {
    fs.mkdirSync(path.join(volume(), "dir"));
    using pinned = pinPath(volume(), "dir");
    fs.rmdirSync(path.join(volume(), "dir"));
    fs.symlinkSync("/etc", path.join(volume(), "dir"));
    assert.deepEqual(fs.readdirSync(pinned.path), []);
  });

  it("CVE-2021-25741: never leads out while somebody exchanges folder and link without pause", async () => {
    const place = path.join(volume(), "race");
    fs.mkdirSync(path.join(volume(), "folder/sub"), { recursive: true });
    fs.writeFileSync(path.join(volume(), "folder/sub/mark"), "");
    fs.mkdirSync(path.join(root, "sub"), { recursive: true });
    // Each link is put in place by a rename, so that the path always exists.
    const exchange = `const fs = require("node:fs");
      const [place, done] = require("node:worker_threads").workerData;
      for (let turn = 0; Atomics.load(done, 0) === 0; turn++) {
        fs.symlinkSync(turn % 2 ? "folder" : "..", place + ".new");
        fs.renameSync(place + ".new", place);
        if (turn === 1) require("node:worker_threads").parentPort.postMessage("begun");
      }`;
    const done = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(exchange, { eval: true, workerData: [place, done] });
    const ended = once(worker, "exit");
    await once(worker, "message");
    const seen = { inside: 0, refused: 0 };
    for (
      let tries = 0;
      tries < 20_000 && (tries < 500 || Math.min(seen.inside, seen.refused) === 0);
      tries++
    ) {
      try {
        using pinned = pinPath(volume(), "race/sub");
        assert.deepEqual(fs.readdirSync(pinned.path), ["mark"]);
        seen.inside += 1;
      } catch (error) {
        if (!AgentError.is(error, "AGENT_PATH_UNSAFE")) throw error;
        seen.refused += 1;
      }
    }
    Atomics.store(done, 0, 1);
    await ended;
    assert.ok(seen.inside > 0 && seen.refused > 0, JSON.stringify(seen));
  });

  it("opens few folders at a time, and ends soon, for links that are as long as links can be", () => {
    const folder = path.join(volume(), "deep");
    const before = process.cwd();
    let place = folder;
    fs.mkdirSync(place);
    for (let depth = 0; depth < 1500; depth++) {
      // From the folder itself, because no path may be that long.
      place = path.join(place, "d");
      if (place.length > 3000) {
        process.chdir(path.dirname(place));
        place = "d";
      }
      fs.mkdirSync(place);
    }
    process.chdir(before);
    fs.symlinkSync("d/".repeat(1400), path.join(folder, "down"));
    fs.symlinkSync("d/../".repeat(800), path.join(folder, "long0"));
    for (let link = 1; link < 30; link++)
      fs.symlinkSync(`${"d/../".repeat(800)}long${link - 1}`, path.join(folder, `long${link}`));
    for (const way of ["deep/down", "deep/long29"])
      assert.throws(() => pinPath(volume(), way), /it has too many parts/);
    pinPath(volume(), "deep/long0")[Symbol.dispose]();
  });

  it("leaves no descriptor open", () => {
    const count = (): number => fs.readdirSync("/proc/self/fd").length;
    const first = count();
    for (const way of ["file", "new/deep", "up", "loop", "..", "deep/down"]) {
      try {
        pinPath(volume(), way)[Symbol.dispose]();
      } catch {
        // Refused, which another test checks.
      }
    }
    assert.equal(count(), first);
  });
});
