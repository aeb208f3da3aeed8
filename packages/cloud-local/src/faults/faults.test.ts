import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, it } from "node:test";
import { silentLogger, type Clock } from "@kip/base";
import type { Instance, InterruptionNotice } from "@kip/cloud";
import { temporaryFolder } from "@kip/testing";
import { FaultsFile, type MachineNotice } from "./faults-file.ts";
import { Notices } from "./notices.ts";

const notice = (instance: string, endsAt: string): MachineNotice => ({
  instance,
  launchedAt: "2026-01-01T00:00:00Z",
  endsAt,
});

function place() {
  const folder = temporaryFolder();
  return {
    path: folder.path,
    file: new FaultsFile(folder.path),
    [Symbol.dispose]: () => folder.remove(),
  };
}

describe("FaultsFile", () => {
  it("is there only while there is something in it, and loses no change", async () => {
    using here = place();
    const other = new FaultsFile(here.path);
    const changes = [1, 2, 3, 4].map((ms) =>
      (ms % 2 === 0 ? here.file : other).rules.update((rules) => [
        ...rules,
        { kind: "slow-launch", ms },
      ]),
    );
    await Promise.all(changes);
    assert.equal((await other.rules.read()).length, 4);
    await here.file.rules.update(() => []);
    await assert.rejects(access(path.join(here.path, "faults.json")));
  });
});

describe("Notices", () => {
  it("reports each notice once, ends its machine in time, and removes notices of machines that are gone", async () => {
    using here = place();
    const start = Date.parse("2026-01-01T00:00:00Z");
    const timers: { readonly ms: number; readonly wake: () => void }[] = [];
    const clock: Clock = {
      now: () => start,
      monotonic: () => start,
      sleep: async (ms, signal) =>
        await new Promise((wake, reject) => {
          timers.push({ ms, wake });
          signal?.addEventListener("abort", () => reject(new Error("Aborted")));
        }),
    };
    const living = new Set(["i-1", "i-2"]);
    const ended: string[] = [];
    const open = async () => {
      const notices = new Notices({
        file: here.file,
        describe: async (id) =>
          // the only fields that are used
          living.has(id) ? ({ id, launchedAt: "2026-01-01T00:00:00Z" } as Instance) : undefined,
        isGone: async ({ instance }) => !living.has(instance),
        end: async (id) => void (living.delete(id), ended.push(id)),
        clock,
        logger: silentLogger,
      });
      await notices.open();
      return notices;
    };
    await here.file.update((state) => ({
      ...state,
      notices: [notice("i-gone", "2026-01-01T00:00:01Z"), notice("i-1", "2026-01-01T00:00:02Z")],
    }));
    const notices = await open();
    assert.deepEqual(
      (await here.file.read()).notices.map(({ instance }) => instance),
      ["i-1"],
    );
    const heard: InterruptionNotice[] = [];
    const second = Promise.withResolvers<void>();
    notices.subscribe((each) => {
      heard.push(each);
      if (heard.length === 2) second.resolve();
    });
    await here.file.update((state) => ({
      ...state,
      notices: [...state.notices, notice("i-2", "2026-01-01T00:00:09Z")],
    }));
    await second.promise;
    assert.deepEqual(
      heard.map(({ instance }) => instance.id),
      ["i-1", "i-2"],
    );
    assert.deepEqual(
      timers.map(({ ms }) => ms),
      [2000, 9000],
    );
    timers[0]?.wake();
    while ((await here.file.read()).notices.length > 1) await setImmediate();
    assert.deepEqual(ended, ["i-1"]);
    await notices.close();
    assert.equal((await here.file.read()).notices.length, 1);
  });
});
