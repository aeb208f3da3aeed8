import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { silentLogger, systemClock } from "@kip/base";
import { eventually, temporaryFolder } from "@kip/testing";
import { listLogFiles, logPaths, logUsageBytes } from "./log-files.ts";
import { LogRotation } from "./log-rotation.ts";
import { isLogSettled } from "./settle-log.ts";
import { compressOldLogs, removeOldLogs } from "./trim-log.ts";

const never = new AbortController().signal;

/** Goes on to the next file as conmon does. */
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
    const options = { maxFiles: 3, logger: silentLogger, clock: systemClock };
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
    const options = { maxFiles: 3, logger: silentLogger, clock: systemClock };
    // It removes what is too much when it looks.
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

  it("ends when the whole log is removed", async () => {
    const folder = temporaryFolder();
    const options = { maxFiles: 3, logger: silentLogger, clock: systemClock };
    const rotation = new LogRotation(path.join(folder.path, "none"), options);
    folder.remove();
    await rotation[Symbol.asyncDispose]();
  });
});

/** Files that were full at these seconds; the last is still written. */
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
    await removeOldLogs(folder.path, 4);
    assert.deepEqual(fs.readdirSync(folder.path).sort(), ["3.log", "4.log", "5.log", "6.log"]);
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
