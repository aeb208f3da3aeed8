import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger, type LogFields } from "../logger.ts";
import { every } from "./every.ts";
import { pause } from "./pause.ts";
import { SerialQueue } from "./serial-queue.ts";
import { withTimeout } from "./with-timeout.ts";
import { ManualClock } from "@kip/testing";

describe("pause()", () => {
  it("returns true when the time has passed", async () => {
    const clock = new ManualClock();
    const result = pause(1000, clock, new AbortController().signal);
    await clock.advance(1000);
    assert.equal(await result, true);
  });

  it("returns false when the signal aborts, and leaves no timer", async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const result = pause(1000, clock, stop.signal);
    stop.abort();
    assert.equal(await result, false);
    assert.equal(clock.sleepers, 0);
    assert.equal(await pause(1000, clock, stop.signal), false);
  });

  it("waits for the signal alone if the time is infinite", async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const result = pause(Number.POSITIVE_INFINITY, clock, stop.signal);
    assert.equal(clock.sleepers, 0);
    stop.abort();
    assert.equal(await result, false);
  });
});

describe("every()", () => {
  it("repeats after the interval, logs failures and goes on, until the signal aborts", async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const warnings: [string, LogFields | undefined][] = [];
    const logger = {
      ...silentLogger,
      warn: (message: string, fields?: LogFields) => void warnings.push([message, fields]),
    };
    let runs = 0;
    const options = { intervalMs: 100, clock, logger, what: "look", signal: stop.signal };
    const ended = every(options, async () => {
      if (++runs === 2) throw new Error("Once");
    });
    await clock.advance(250);
    assert.equal(runs, 3);
    assert.deepEqual(
      warnings.map(([message]) => message),
      ["Could not look"],
    );
    stop.abort();
    await ended;
    assert.equal(clock.sleepers, 0);
  });

  it("waits first if it is not immediate", async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    let runs = 0;
    const options = {
      intervalMs: () => 100,
      isImmediate: false,
      clock,
      logger: silentLogger,
      what: "look",
      signal: stop.signal,
    };
    const ended = every(options, async () => void runs++);
    await clock.advance(99);
    assert.equal(runs, 0);
    await clock.advance(1);
    assert.equal(runs, 1);
    stop.abort();
    await ended;
  });
});

describe("withTimeout()", () => {
  it("returns the result and leaves no timer", async () => {
    const clock = new ManualClock();
    assert.equal(await withTimeout(async () => 1, { limitMs: 1000, clock }), 1);
    assert.equal(clock.sleepers, 0);
  });

  it("throws when the time is over, and aborts the work", async () => {
    const clock = new ManualClock();
    let seen: AbortSignal | undefined;
    const result = withTimeout(
      async (signal) => {
        seen = signal;
        await new Promise(() => {});
      },
      { limitMs: 5000, clock },
    );
    const rejected = assert.rejects(result, { name: "TimeoutError", message: /within 5 s/ });
    await clock.advance(5000);
    await rejected;
    assert.equal(seen?.aborted, true);
  });

  it("throws the caller's own error for the timeout", async () => {
    const clock = new ManualClock();
    const error = (): Error => new Error("The provider did not answer");
    const result = withTimeout(() => new Promise(() => {}), { limitMs: 1, clock, error });
    const rejected = assert.rejects(result, { message: "The provider did not answer" });
    await clock.advance(1);
    await rejected;
  });

  it("throws the reason of the caller's signal", async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const { signal } = stop;
    const result = withTimeout(() => new Promise(() => {}), { limitMs: 1000, clock, signal });
    stop.abort(new Error("Stopped"));
    await assert.rejects(result, { message: "Stopped" });
    await assert.rejects(
      withTimeout(async () => assert.fail("runs"), { limitMs: 1, clock, signal }),
      { message: "Stopped" },
    );
    assert.equal(clock.sleepers, 0);
  });
});

describe("SerialQueue", () => {
  it("runs the tasks of a key one at a time and in order, whether they fail or not", async () => {
    const queue = new SerialQueue();
    const log: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = queue.run(async () => {
      log.push("first");
      await gate.promise;
      throw new Error("Failed");
    });
    const second = queue.run(async () => void log.push("second"));
    const other = queue.run(async () => void log.push("other key"), "b");
    await other;
    assert.deepEqual(log, ["first", "other key"]);
    gate.resolve();
    await assert.rejects(first, { message: "Failed" });
    await second;
    await queue.idle();
    assert.deepEqual(log, ["first", "other key", "second"]);
  });

  it("runs no task beside the one that runs, although the last one of the queue was taken out", async () => {
    const queue = new SerialQueue();
    const first = Promise.withResolvers<void>();
    const order: string[] = [];
    const running = queue.run(async () => {
      await first.promise;
      order.push("first");
    });
    const stop = new AbortController();
    const waiting = queue.run(() => assert.fail("it was taken out"), "", stop.signal);
    stop.abort(new Error("no longer wanted"));
    await assert.rejects(waiting, { message: "no longer wanted" });
    const later = queue.run(async () => void order.push("later"));
    const idle = queue.idle().then(() => order.push("idle"));
    await new Promise(setImmediate);
    assert.deepEqual(order, []);
    first.resolve();
    await Promise.all([running, later, idle]);
    assert.deepEqual(order, ["first", "later", "idle"]);
  });

  it("takes a task out whose signal aborts, and runs the next one after those before it", async () => {
    const queue = new SerialQueue();
    const first = Promise.withResolvers<string>();
    const order: string[] = [];
    const running = queue.run(async () => await first.promise, "key");
    const stop = new AbortController();
    const waiting = queue.run(() => assert.fail("it was taken out"), "key", stop.signal);
    const last = queue.run(async () => void order.push("last"), "key");
    stop.abort(new Error("no longer wanted"));
    await assert.rejects(waiting, { message: "no longer wanted" });
    assert.deepEqual(order, []);
    first.resolve("done");
    assert.equal(await running, "done");
    await last;
    assert.deepEqual(order, ["last"]);
  });
});
