import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inLaterTurn } from "./later-turns.ts";

/** Blocks the event loop, milliseconds. */
function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}

describe("inLaterTurn()", () => {
  it("runs tasks in order, and not in this turn", async () => {
    const seen: string[] = [];
    inLaterTurn(() => {
      seen.push("first");
      inLaterTurn(() => void seen.push("added"));
    });
    inLaterTurn(() => void seen.push("second"));
    await Promise.resolve();
    assert.deepEqual(seen, []);
    await new Promise<void>((resolve) => inLaterTurn(resolve));
    assert.deepEqual(seen.slice(0, 2), ["first", "second"]);
    await new Promise<void>((resolve) => inLaterTurn(resolve));
    assert.deepEqual(seen, ["first", "second", "added"]);
  });

  it("lets other work go on while thousands of tasks take their time", async () => {
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    // Half of the work of a task is done later in the same turn.
    const all = Array.from({ length: 200 }, () => {
      const done = Promise.withResolvers<void>();
      inLaterTurn(() => {
        block(0.5);
        void Promise.resolve()
          .then(() => block(0.5))
          .then(done.resolve);
      });
      return done.promise;
    });
    await Promise.all(all);
    clearInterval(timer);
    assert.ok(turns > 5, `${turns} turns with timers`);
  });
});
