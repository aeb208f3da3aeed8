import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { ManualClock } from "@kip/testing";
import { ExecTurns } from "./exec-turns.ts";

describe("ExecTurns", () => {
  const never = new AbortController().signal;

  it("lets four commands begin, and the next one when one of them has", async () => {
    const turns = new ExecTurns(new ManualClock());
    const entered: number[] = [];
    const leave = Array.from({ length: 6 }, async (_, index) => {
      const turn = await turns.enter(never);
      entered.push(index);
      return turn;
    });
    await setImmediate();
    assert.deepEqual(entered, [0, 1, 2, 3]);
    (await leave[0])?.[Symbol.dispose]();
    await leave[4];
    assert.deepEqual(entered, [0, 1, 2, 3, 4]);
    (await leave[1])?.[Symbol.dispose]();
    await leave[5];
  });

  it("ends the wait of a client that has gone", async () => {
    const turns = new ExecTurns(new ManualClock());
    for (let i = 0; i < 4; i++) await turns.enter(never);
    const gone = new AbortController();
    const waiting = turns.enter(gone.signal);
    gone.abort(new Error("gone"));
    await assert.rejects(waiting, /gone/);
  });

  it("goes on without a command that does not begin", async () => {
    const clock = new ManualClock();
    const turns = new ExecTurns(clock);
    for (let i = 0; i < 4; i++) await turns.enter(never);
    const waiting = turns.enter(never);
    await setImmediate();
    await clock.advance(10_000);
    await waiting;
  });
});
