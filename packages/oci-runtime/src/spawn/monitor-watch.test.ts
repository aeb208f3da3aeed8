import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { ManualClock, temporaryFolder } from "@kip/testing";
import { MonitorWatch } from "./monitor-watch.ts";

describe("MonitorWatch", () => {
  it("names the containers whose monitors are gone, until they are released", async () => {
    using folder = temporaryFolder();
    const [one = "", other = ""] = ["one", "other"].map((name) => path.join(folder.path, name));
    execFileSync("mkfifo", [one, other]);
    const monitors = [one, other].map((pipe) =>
      openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK),
    );
    const clock = new ManualClock();
    const gone: string[] = [];
    await using watch = new MonitorWatch({ clock, logger: silentLogger }, async (id) =>
      gone.push(id),
    );
    watch.keep("one", one);
    watch.keep("other", other);
    await clock.advance(60_000);
    assert.deepEqual(gone, []);
    closeSync(monitors[0] ?? 0);
    await clock.advance(10_000);
    assert.deepEqual(gone, ["one"]);
    watch.release("one");
    await clock.advance(60_000);
    assert.deepEqual(gone, ["one"]);
    closeSync(monitors[1] ?? 0);
  });
});
