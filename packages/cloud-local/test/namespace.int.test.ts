import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CommandError } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { namespaceOf } from "../src/network/namespace.ts";

describe("Namespace.run()", { timeout: 60_000 }, () => {
  it("kills a program that does not end within ten minutes", async () => {
    const clock = new ManualClock();
    const namespace = namespaceOf(`test-limit-${process.pid}`, { clock });
    await namespace.create();
    try {
      const ended = namespace.run("sleep", ["1000"]).then(
        () => assert.fail("it ran"),
        (error: unknown) => error,
      );
      await clock.advance(599_999);
      assert.equal(clock.sleepers, 1);
      await clock.advance(1);
      const error = await ended;
      assert.ok(CommandError.is(error, "COMMAND_FAILED"), String(error));
      assert.equal(error.signal, "SIGKILL");
    } finally {
      await namespace.remove();
    }
  });
});
