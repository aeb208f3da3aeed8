import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { setImmediate, setTimeout } from "node:timers/promises";
import { temporaryFolder } from "@kip/testing";
import { LogChanges } from "./log-changes.ts";

const never = new AbortController().signal;

describe("LogChanges", () => {
  it("keeps one change for a reader that is slow, however much is written", async () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "0.log");
    fs.writeFileSync(file, "");
    using changes = new LogChanges(new Promise(() => {}), never);
    changes.watch(file);
    for (let count = 0; count < 100; count++) {
      fs.appendFileSync(file, "line\n");
      // Otherwise the kernel would merge several events into one.
      for (let turn = 0; turn < 3; turn++) await setImmediate();
    }
    let wakes = 0;
    const isWoken = async (): Promise<boolean> => await changes.next().then(() => true);
    while (await Promise.race([isWoken(), setTimeout(100, false)])) wakes++;
    assert.ok(wakes <= 2, `${wakes} pieces of news`);
  });

  it("wakes its reader for what is written, for the end and for an abort", async () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "0.log");
    fs.writeFileSync(file, "");
    const ended = Promise.withResolvers<void>();
    const abort = new AbortController();
    using changes = new LogChanges(ended.promise, abort.signal);
    changes.watch(file);
    await changes.next(); // what existed before the watch started
    const written = changes.next();
    fs.appendFileSync(file, "line\n");
    await written;
    ended.resolve();
    while (!changes.hasEnded) await changes.next();
    abort.abort();
    await changes.next();
  });

  it("wakes its reader when another file takes the name of the one that it watches", async () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "current.log");
    fs.writeFileSync(file, "");
    fs.linkSync(file, path.join(folder.path, "1.log"));
    fs.writeFileSync(`${file}.tmp`, "");
    using changes = new LogChanges(new Promise(() => {}), never);
    changes.watch(path.join(folder.path, "1.log"));
    await changes.next();
    const renamed = changes.next();
    fs.renameSync(`${file}.tmp`, file);
    await renamed;
  });
});
