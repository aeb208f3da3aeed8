import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { runCommand, systemClock } from "@kip/base";
import { readLog, type ContainerRuntime } from "@kip/oci-runtime";
import { container } from "../../test/desired-pod.ts";
import { terminationMessage } from "./termination-message.ts";

const KiB = 1024;
const time = "2026-01-01T00:00:00.123456789+00:00";
const entry = (tag: "F" | "P", content: string): string => `${time} stdout ${tag} ${content}\n`;

describe("terminationMessage()", () => {
  let folder = "";
  let terminationFile = "";
  let logDirectory = "";
  let log = "";
  let readBytes = 0;
  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), "kip-message-"));
    terminationFile = path.join(folder, "termination-log");
    logDirectory = path.join(folder, "log");
    log = path.join(logDirectory, "current.log");
    fs.mkdirSync(logDirectory);
    readBytes = 0;
  });
  afterEach(() => fs.rmSync(folder, { recursive: true }));

  const runtime: Pick<ContainerRuntime, "logs"> = {
    logs: (_id, directory, options, signal) => {
      const log = readLog(directory, options, Promise.resolve(), signal);
      log.on("data", (chunk: Buffer) => (readBytes += chunk.length)).pause();
      return log;
    },
  };
  const message = async (): Promise<string | undefined> =>
    await terminationMessage({
      container: container("web", { terminationMessagePolicy: "FallbackToLogsOnError" }),
      exitCode: 1,
      terminationFile,
      logDirectory,
      id: "id",
      runtime,
      clock: systemClock,
    });

  it("takes the last 80 lines of the log", async () => {
    const lines = Array.from({ length: 200 }, (_, index) => `line ${index}`);
    fs.writeFileSync(log, lines.map((line) => entry("F", line)).join(""));
    assert.equal(await message(), `${lines.slice(-80).join("\n")}\n`);
    fs.appendFileSync(log, entry("P", "without an end"));
    assert.equal(await message(), `${lines.slice(-79).join("\n")}\nwithout an end`);
  });

  it("takes the last 2 KiB of a line, and reads no more of it than that needs", async () => {
    // Like conmon writes a long line: in pieces of its buffer's size.
    const part = entry("P", "x".repeat(8 * KiB - 1));
    fs.writeFileSync(log, part.repeat(4096) + entry("P", "the end"));
    assert.equal(await message(), `${"x".repeat(2 * KiB - 7)}the end`);
    assert.ok(readBytes < 256 * KiB, String(readBytes));
  });

  it("finds 2 KiB among entries of one byte", async () => {
    fs.writeFileSync(log, entry("P", "x").repeat(20_000));
    assert.equal(await message(), "x".repeat(2 * KiB));
  });

  it("reads the end of a message file of any size", async () => {
    fs.writeFileSync(terminationFile, "");
    fs.truncateSync(terminationFile, 2 ** 40); // larger than any memory, without using disk space
    fs.appendFileSync(terminationFile, "the end");
    assert.equal((await message())?.replaceAll("\0", ""), "the end");
  });

  it("KHV047: takes no link, pipe or folder for the message", async () => {
    fs.writeFileSync(log, entry("F", "log"));
    fs.writeFileSync(path.join(folder, "secret"), "secret");
    const plants: readonly (() => unknown)[] = [
      () => fs.symlinkSync("secret", terminationFile),
      async () => await runCommand("mkfifo", [terminationFile]),
      () => fs.mkdirSync(terminationFile),
    ];
    for (const plant of plants) {
      await plant();
      assert.equal(await message(), "log\n");
      fs.rmSync(terminationFile, { recursive: true });
    }
  });
});
