import assert from "node:assert/strict";
import fs from "node:fs";
import calls from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { temporaryFolder } from "@kip/testing";
import { listLogFiles, logPaths } from "./log-files.ts";
import { isLogSettled, numberLogFiles, settleLog, type SettleCalls } from "./settle-log.ts";

/** Writes a log like conmon: each file has one line with its number. */
class Writer {
  readonly #paths: ReturnType<typeof logPaths>;
  #written = 0;
  #fd: number;

  constructor(directory: string) {
    this.#paths = logPaths(directory);
    this.#fd = fs.openSync(this.#paths.current, "a");
    this.#write();
  }

  get written(): number {
    return this.#written;
  }

  /** The first half of switching to the next file. */
  open(): void {
    fs.closeSync(this.#fd);
    this.#fd = fs.openSync(this.#paths.waiting, "w");
  }

  /** The second half. */
  rename(): void {
    fs.renameSync(this.#paths.waiting, this.#paths.current);
    this.#write();
  }

  next(): void {
    this.open();
    this.rename();
  }

  #write(): void {
    fs.writeSync(this.#fd, `${++this.#written}\n`);
  }
}

class Killed extends Error {}

/** System calls with a callback before each of them. */
function interrupted(before: (call: number) => void): SettleCalls {
  let count = 0;
  const each = <T>(result: () => T): T => {
    before(count++);
    return result();
  };
  return {
    lstat: ((file: string) => each(async () => await calls.lstat(file))) as typeof calls.lstat,
    readdir: async (directory: string) => await each(async () => await calls.readdir(directory)),
    link: async (...names: Parameters<typeof calls.link>) =>
      await each(async () => await calls.link(...names)),
    rename: async (...names: Parameters<typeof calls.rename>) =>
      await each(async () => await calls.rename(...names)),
    unlink: async (name: Parameters<typeof calls.unlink>[0]) =>
      await each(async () => await calls.unlink(name)),
    open: async (...how: Parameters<typeof calls.open>) =>
      await each(async () => await calls.open(...how)),
  };
}

async function contentOf(directory: string): Promise<string> {
  const files = await listLogFiles(directory);
  return files.map((file) => fs.readFileSync(file.path, "utf8")).join("");
}

/** A log with this many lines, one per file. */
function lines(count: number): string {
  return Array.from({ length: count }, (_, index) => `${index + 1}\n`).join("");
}

/** Runs with a settled log that has one file, in a separate folder. */
async function withLog<T>(work: (directory: string, writer: Writer) => Promise<T>): Promise<T> {
  using folder = temporaryFolder();
  const writer = new Writer(folder.path);
  await settleLog(folder.path);
  return await work(folder.path, writer);
}

describe("settleLog()", () => {
  it("numbers the files that conmon has begun, and has the next one wait", async () => {
    await withLog(async (directory, writer) => {
      for (let file = 0; file < 4; file++) {
        await settleLog(directory);
        assert.equal(await isLogSettled(directory), true);
        writer.next();
        assert.equal(await isLogSettled(directory), false);
      }
      await settleLog(directory);
      assert.equal(await contentOf(directory), lines(5));
    });
  });

  it("loses nothing when conmon was faster by one file", async () => {
    await withLog(async (directory, writer) => {
      writer.next();
      writer.next();
      await settleLog(directory);
      assert.equal(await contentOf(directory), lines(3));
      assert.equal(await isLogSettled(directory), true);
    });
  });

  it("leaves a number out where a file is lost, as conmon was faster by more", async () => {
    await withLog(async (directory, writer) => {
      for (let file = 0; file < 3; file++) {
        // What fills a file takes a while.
        await setTimeout(20);
        writer.next();
      }
      await settleLog(directory);
      assert.equal(await contentOf(directory), "1\n2\n4\n");
      const numbers = (await listLogFiles(directory)).map(({ number }) => number);
      assert.deepEqual(numbers, [1, 2, 4]);
    });
  });

  it("goes on where an agent was killed, at each call of it", async () => {
    // Once two files were started, the next one would be the third before a check, and may be lost.
    for (const [filesBefore, filesAfter] of [
      [0, 1],
      [1, 1],
      [2, 0],
    ] as const)
      for (let killedAt = 0; ; killedAt++) {
        const isKilled = await withLog(async (directory, writer) => {
          for (let file = 0; file < filesBefore; file++) writer.next();
          const dying = interrupted((call) => {
            if (call === killedAt) throw new Killed();
          });
          const wasKilled = await settleLog(directory, dying).then(
            () => false,
            (error: unknown) => error instanceof Killed,
          );
          for (let file = 0; file < filesAfter; file++) writer.next();
          await settleLog(directory);
          const at = `killed at ${killedAt} after ${filesBefore}`;
          assert.equal(await contentOf(directory), lines(writer.written), at);
          assert.equal(await isLogSettled(directory), true, at);
          return wasKilled;
        });
        if (!isKilled) break;
      }
  });

  it("loses and doubles nothing when conmon goes on to its next file between any two calls", async () => {
    for (const calls of [0, 1, 3])
      for (let openAt = 0; ; openAt++) {
        const isInTime = await withLog(async (directory, writer) => {
          writer.next();
          let isRenamed = false;
          let isOpen = false;
          const watched = interrupted((call) => {
            if (call === openAt) {
              writer.open();
              isOpen = true;
            }
            if (call === openAt + calls) {
              writer.rename();
              isRenamed = true;
            }
          });
          await settleLog(directory, watched);
          if (isOpen && !isRenamed) writer.rename();
          await settleLog(directory);
          const at = `opened at ${openAt}, renamed ${calls} calls later`;
          assert.equal(await contentOf(directory), lines(writer.written), at);
          assert.equal(await isLogSettled(directory), true, at);
          return isOpen;
        });
        if (!isInTime) break;
      }
  });

  it("does nothing without a log, and with something else in its place", async () => {
    using folder = temporaryFolder();
    await settleLog(folder.path);
    assert.deepEqual(fs.readdirSync(folder.path), []);
    await settleLog(path.join(folder.path, "none"));
    fs.symlinkSync("/etc/passwd", logPaths(folder.path).current);
    await settleLog(folder.path);
    assert.deepEqual(fs.readdirSync(folder.path), ["current.log"]);
  });
});

describe("numberLogFiles()", () => {
  it("makes no file", async () => {
    using folder = temporaryFolder();
    const writer = new Writer(folder.path);
    assert.equal(writer.written, 1);
    await numberLogFiles(folder.path);
    assert.deepEqual(fs.readdirSync(folder.path).sort(), ["1.log", "current.log"]);
  });

  it("reads the directory once for all callers that wait, after the last of them called", async (t) => {
    using folder = temporaryFolder();
    const writer = new Writer(folder.path);
    await settleLog(folder.path);
    const reads = t.mock.method(calls, "readdir");
    const first = numberLogFiles(folder.path); // begins at once
    const others = Array.from({ length: 100 }, async () => {
      await numberLogFiles(folder.path);
      assert.equal(await contentOf(folder.path), lines(2));
    });
    writer.next();
    await first;
    await Promise.all(others);
    const ofCallers = 101; // in `contentOf`
    assert.ok(reads.mock.callCount() - ofCallers < 10, `${reads.mock.callCount()} reads`);
  });
});
