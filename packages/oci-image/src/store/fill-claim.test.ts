import assert from "node:assert/strict";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { mkdir, symlink, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { runCommand, systemClock, type Clock } from "@kip/base";
import { missing, temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { doOnce } from "./fill-claim.ts";

/** A clock on which sleeping takes a turn of the event loop. */
function fastClock(): Clock & { time: number } {
  const clock = {
    time: 0,
    now: () => clock.time,
    monotonic: () => clock.time,
    sleep: async (ms: number, signal?: AbortSignal) => {
      await sleep(1);
      signal?.throwIfAborted();
      clock.time += ms;
    },
  };
  return clock;
}

describe("doOnce()", () => {
  it("lets one work, while the others wait for it", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    let count = 0;
    let isDone = false;
    const one = async (): Promise<void> =>
      await doOnce(file, {
        isDone: async () => isDone,
        work: async () => {
          count++;
          await sleep(50);
          isDone = true;
        },
        clock: systemClock,
      });
    await Promise.all([one(), one(), one()]);
    assert.equal(count, 1);
    assert.deepEqual(readdirSync(work.path), []);
  });

  it("goes on after a holder that died, and not before it was silent for half a minute", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    writeFileSync(file, "somebody 0");
    const clock = fastClock();
    let isDone = false;
    await doOnce(file, {
      isDone: async () => isDone,
      work: async () => {
        assert.ok(clock.time >= 30_000 && clock.time < 60_000, `${clock.time}`);
        isDone = true;
        await Promise.resolve();
      },
      clock,
    });
    assert.ok(isDone && !existsSync(file));
  });

  it(
    "takes a pipe, a link, a folder or a large file for a holder that died",
    { skip: missing({ programs: ["mkfifo"] }) },
    async () => {
      for (const plant of [
        async (file: string) => void (await runCommand("mkfifo", [file])),
        async (file: string) => await symlink("/dev/zero", file),
        async (file: string) => await mkdir(path.join(file, "inner"), { recursive: true }),
        async (file: string) =>
          await writeFile(file, "").then(async () => await truncate(file, 2 ** 40)),
      ]) {
        using work = temporaryFolder();
        const file = path.join(work.path, "claim");
        await plant(file);
        let isDone = false;
        const isWorking = async (): Promise<void> => {
          isDone = true;
          await Promise.resolve();
        };
        await doOnce(file, { isDone: async () => isDone, work: isWorking, clock: fastClock() });
        assert.deepEqual([isDone, readdirSync(work.path)], [true, []]);
      }
    },
  );

  it("waits for a holder that is slow and alive", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    const clock = fastClock();
    let isDone = false;
    let count = 0;
    const slow = async (): Promise<void> => {
      count++;
      while (clock.time < 300_000) await sleep(1);
      isDone = true;
    };
    const options = { isDone: async () => isDone, work: slow, clock };
    const first = doOnce(file, options);
    await sleep(5);
    await Promise.all([first, doOnce(file, options)]);
    assert.equal(count, 1);
  });

  it("lets the next work after a failure, and ends when it is aborted", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    const clock = fastClock();
    const fail = async (): Promise<void> => await Promise.reject(new Error("no network"));
    const isDone = async (): Promise<boolean> => await Promise.resolve(false);
    await assert.rejects(doOnce(file, { isDone, work: fail, clock }), /no network/);
    assert.ok(!existsSync(file));
    writeFileSync(file, "somebody 0");
    const signal = AbortSignal.abort(new Error("enough"));
    await assert.rejects(doOnce(file, { isDone, work: fail, clock, signal }), /enough/);
  });
});
