import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { describe, it } from "node:test";
import { CommandError } from "@kip/base";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { WaitingNft } from "../src/network/waiting-nft.ts";

describe("WaitingNft", { timeout: 60_000 }, () => {
  it("kills nft that does not end within ten minutes after it has its commands, the first one and others", async () => {
    using folder = temporaryFolder();
    const pipe = path.join(folder.path, "pipe");
    execFileSync("mkfifo", [pipe]);
    const clock = new ManualClock();
    const nft = new WaitingNft({ clock });
    await clock.advance(3_600_000);
    for (let i = 0; i < 2; i++) {
      // Nothing writes to the pipe, so nft waits forever.
      const ended = nft.run(`include "${pipe}"\n`).then(
        () => assert.fail("it ran"),
        (error: unknown) => error,
      );
      await clock.advance(599_999);
      assert.equal(clock.sleepers, 1);
      await clock.advance(1);
      const error = await ended;
      assert.ok(CommandError.is(error, "COMMAND_FAILED"), String(error));
      assert.equal(error.signal, "SIGKILL");
    }
  });
});
