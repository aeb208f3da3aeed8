import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { silentLogger, systemClock } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { listLogFiles, logPaths, logUsageBytes } from "./log-files.ts";
import { LogRotation } from "./log-rotation.ts";
import { isLogSettled } from "./settle-log.ts";
import { compressOldLogs, removeOldLogs } from "./trim-log.ts";

const never = new AbortController().signal;

const limits = { maxFiles: 3, maxFileBytes: 1000 };
const rotating = { limits, requestNext: async () => {}, logger: silentLogger };

/** Switches to the next file like conmon. */
function goOn(directory: string, text: string): void {
  const { current, waiting } = logPaths(directory);
  fs.appendFileSync(waiting, "");
  fs.truncateSync(waiting);
  fs.renameSync(waiting, current);
  fs.appendFileSync(current, text);
}

async function namesOf(directory: string): Promise<readonly string[]> {
  return (await listLogFiles(directory)).map((file) => path.basename(file.path));
}

describe("LogRotation", { timeout: 60_000 }, () => {
  it("numbers each file when conmon goes on to it, and keeps so many", async () => {
    using folder = temporaryFolder();
    fs.writeFileSync(logPaths(folder.path).current, "1");
    const options = { ...rotating, clock: systemClock };
    await using _rotation = new LogRotation(folder.path, options);
    for (let file = 2; file < 8; file++) {
      await eventually(async () => await isLogSettled(folder.path));
      goOn(folder.path, String(file));
    }
    await eventually(async () => (await namesOf(folder.path)).join() === "5.log,6.log,7.log");
    assert.equal(fs.readFileSync(path.join(folder.path, "5.log"), "utf8"), "5");
  });

  it("is not woken by what is written", async () => {
    using folder = temporaryFolder();
    const { current } = logPaths(folder.path);
    fs.writeFileSync(current, "");
    const options = { ...rotating, clock: systemClock };
    // It removes excess files when it checks.
    const plant = (number: number): void =>
      fs.writeFileSync(path.join(folder.path, `${number}.log`), "");
    for (const number of [1, 2, 3]) plant(number);
    await using _rotation = new LogRotation(folder.path, options);
    await eventually(async () => (await namesOf(folder.path)).join() === "2.log,3.log,4.log");
    plant(1);
    for (let line = 0; line < 100; line++) {
      fs.appendFileSync(current, "line\n");
      await setTimeout(1);
    }
    assert.equal((await listLogFiles(folder.path)).length, 4);
    goOn(folder.path, "2");
    await eventually(async () => (await listLogFiles(folder.path)).length === 3);
  });

  it("has conmon go on when a file is full, as seen every 10 s", async () => {
    using folder = temporaryFolder();
    const { current } = logPaths(folder.path);
    fs.writeFileSync(current, "x".repeat(999));
    const clock = new ManualClock();
    let requests = 0;
    const requestNext = async (): Promise<void> => void requests++;
    await using _rotation = new LogRotation(folder.path, { ...rotating, requestNext, clock });
    const later = async (): Promise<void> => {
      await eventually(() => clock.sleepers > 0);
      await clock.advance(10_000);
    };
    await later();
    await later();
    // The second check has finished.
    await eventually(() => clock.sleepers > 0);
    assert.equal(requests, 0);
    fs.appendFileSync(current, "x");
    await later();
    await eventually(() => requests === 1);
    goOn(folder.path, "x".repeat(1000));
    await eventually(async () => (await namesOf(folder.path)).join() === "1.log,2.log");
    await later();
    await eventually(() => requests === 2);
  });

  it("ends when the whole log is removed", async () => {
    const folder = temporaryFolder();
    const options = { ...rotating, clock: systemClock };
    const rotation = new LogRotation(path.join(folder.path, "none"), options);
    folder.remove();
    await rotation[Symbol.asyncDispose]();
  });
});

/** Files that became full at these seconds. The last one is still being written. */
function logOf(directory: string, seconds: readonly number[]): void {
  for (const [index, second] of seconds.entries()) {
    const file = path.join(directory, `${index + 1}.log`);
    fs.writeFileSync(file, `text of ${index + 1}`.repeat(1000));
    fs.utimesSync(file, second, second);
  }
}

describe("compressOldLogs()", () => {
  it("compresses all but the file that is written and the last full one", async () => {
    using folder = temporaryFolder();
    logOf(folder.path, [100, 200, 300, 400]);
    await compressOldLogs(folder.path, never);
    const names = ["1.log.gz", "2.log.gz", "3.log", "4.log"];
    assert.deepEqual(fs.readdirSync(folder.path).sort(), names);
    const file = fs.readFileSync(path.join(folder.path, "1.log.gz"));
    assert.equal(gunzipSync(file).toString(), "text of 1".repeat(1000));
  });

  it("leaves files alone that become full within seconds", async () => {
    using folder = temporaryFolder();
    logOf(folder.path, [100, 101, 102, 103]);
    await compressOldLogs(folder.path, never);
    assert.equal(fs.readdirSync(folder.path).filter((name) => name.endsWith(".gz")).length, 0);
  });

  it("goes on where it was killed", async () => {
    for (const left of ["1.log.gz.part", "1.log.gz"]) {
      using folder = temporaryFolder();
      logOf(folder.path, [100, 200, 300]);
      fs.writeFileSync(path.join(folder.path, left), "cut o");
      assert.deepEqual(await namesOf(folder.path), ["1.log", "2.log", "3.log"]);
      await compressOldLogs(folder.path, never);
      assert.deepEqual(fs.readdirSync(folder.path).sort(), ["1.log.gz", "2.log", "3.log"]);
      const file = fs.readFileSync(path.join(folder.path, "1.log.gz"));
      assert.equal(gunzipSync(file).toString(), "text of 1".repeat(1000));
    }
  });

  it("leaves no part when it is stopped", async () => {
    using folder = temporaryFolder();
    logOf(folder.path, [100, 200, 300]);
    await compressOldLogs(folder.path, AbortSignal.abort());
    assert.deepEqual(fs.readdirSync(folder.path).sort(), ["1.log", "2.log", "3.log"]);
  });
});

describe("removeOldLogs()", () => {
  it("removes every form of the oldest files", async () => {
    using folder = temporaryFolder();
    logOf(folder.path, [1, 2, 3, 4, 5, 6]);
    for (const name of ["1.log.gz", "2.log.gz.part"])
      fs.writeFileSync(path.join(folder.path, name), "");
    await removeOldLogs(folder.path, { maxFiles: 4, maxFileBytes: 1e6 });
    assert.deepEqual(fs.readdirSync(folder.path).sort(), ["3.log", "4.log", "5.log", "6.log"]);
  });

  it("keeps no file beside newer ones that have as much as all may have", async () => {
    using folder = temporaryFolder();
    logOf(folder.path, [1, 2, 3, 4]);
    const { size } = fs.statSync(path.join(folder.path, "4.log"));
    await removeOldLogs(folder.path, { maxFiles: 4, maxFileBytes: (2 * size) / 4 });
    assert.deepEqual(fs.readdirSync(folder.path).sort(), ["3.log", "4.log"]);
  });

  it("keeps no file that is older than one that was lost", async () => {
    using folder = temporaryFolder();
    logOf(folder.path, [1, 2, 3, 4]);
    fs.rmSync(path.join(folder.path, "2.log"));
    await removeOldLogs(folder.path, { maxFiles: 4, maxFileBytes: 1e6 });
    assert.deepEqual(fs.readdirSync(folder.path).sort(), ["3.log", "4.log"]);
  });
});

describe("logUsageBytes()", () => {
  it("counts each file once, whatever its names", async () => {
    using folder = temporaryFolder();
    const { current } = logPaths(folder.path);
    fs.writeFileSync(current, Buffer.alloc(100_000, "x"));
    const one = await logUsageBytes(folder.path);
    assert.ok(one >= 100_000 && one < 200_000, String(one));
    fs.linkSync(current, path.join(folder.path, "1.log"));
    assert.equal(await logUsageBytes(folder.path), one);
    assert.equal(await logUsageBytes(path.join(folder.path, "none")), 0);
  });
});
