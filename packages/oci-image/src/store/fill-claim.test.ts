import assert from "node:assert/strict";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { mkdir, symlink, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { runCommand } from "@kip/base";
import { EagerClock, temporaryFolder } from "@kip/testing";
import { missing } from "../../test/fixtures/missing.ts";
import { doOnce } from "./fill-claim.ts";

describe("doOnce()", () => {
  it("lets one work, while the others wait for it", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    const clock = new EagerClock();
    let count = 0;
    let looks = 0;
    const hasWaiters = (): boolean => looks >= 10;
    let isDone = false;
    const one = async (): Promise<void> =>
      await doOnce(file, {
        isDone: async () => {
          looks++;
          return await Promise.resolve(isDone);
        },
        work: async () => {
          count++;
          while (!hasWaiters()) await setImmediate();
          isDone = true;
        },
        clock,
      });
    await Promise.all([one(), one(), one()]);
    assert.equal(count, 1);
    assert.deepEqual(readdirSync(work.path), []);
  });

  it("goes on after a holder that died, and not before it was silent for half a minute", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    writeFileSync(file, "somebody 0");
    const clock = new EagerClock();
    let isDone = false;
    await doOnce(file, {
      isDone: async () => isDone,
      work: async () => {
        assert.ok(
          clock.monotonic() >= 30_000 && clock.monotonic() < 60_000,
          `${clock.monotonic()}`,
        );
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
        // A process that follows the link reads something else each time, as from a running holder.
        async (file: string) => await symlink("/dev/urandom", file),
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
        await doOnce(file, {
          isDone: async () => isDone,
          work: isWorking,
          clock: new EagerClock(),
        });
        assert.deepEqual([isDone, readdirSync(work.path)], [true, []]);
      }
    },
  );

  it("waits for a holder that is slow and alive", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    const clock = new EagerClock();
    let isDone = false;
    let count = 0;
    const slow = async (): Promise<void> => {
      count++;
      while (clock.monotonic() < 300_000) await setImmediate();
      isDone = true;
    };
    const options = { isDone: async () => isDone, work: slow, clock };
    const first = doOnce(file, options);
    while (!existsSync(file)) await setImmediate();
    await Promise.all([first, doOnce(file, options)]);
    assert.equal(count, 1);
  });

  it("lets the next work after a failure, and ends when it is aborted", async () => {
    using work = temporaryFolder();
    const file = path.join(work.path, "claim");
    const clock = new EagerClock();
    const fail = async (): Promise<void> => await Promise.reject(new Error("no network"));
    const isDone = async (): Promise<boolean> => await Promise.resolve(false);
    await assert.rejects(doOnce(file, { isDone, work: fail, clock }), /no network/);
    assert.ok(!existsSync(file));
    writeFileSync(file, "somebody 0");
    const signal = AbortSignal.abort(new Error("enough"));
    await assert.rejects(doOnce(file, { isDone, work: fail, clock, signal }), /enough/);
  });
});
