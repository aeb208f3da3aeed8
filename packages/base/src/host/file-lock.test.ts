import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { LockError } from "../errors.ts";
import { acquireFileLock } from "./file-lock.ts";

describe("acquireFileLock()", () => {
  it("lets one holder in at a time, and the next when it leaves", async () => {
    using place = temporaryLock();
    const order: string[] = [];
    const first = await acquireFileLock(place.path);
    const waiting = Promise.withResolvers<void>();
    const second = acquireFileLock(place.path, { onWait: () => waiting.resolve() });
    await waiting.promise;
    order.push("first leaves");
    await first[Symbol.asyncDispose]();
    await using _held = await second;
    order.push("second is in");
    assert.deepEqual(order, ["first leaves", "second is in"]);
  });

  it("fails at once where that is asked for", async () => {
    using place = temporaryLock();
    await using _held = await acquireFileLock(place.path);
    await assert.rejects(acquireFileLock(place.path, { whenHeld: "fail" }), (error) =>
      LockError.is(error, "LOCK_HELD"),
    );
  });

  it("stops waiting when it is abandoned", async () => {
    using place = temporaryLock();
    await using _held = await acquireFileLock(place.path);
    const controller = new AbortController();
    const waiting = acquireFileLock(place.path, {
      signal: controller.signal,
      onWait: () => setImmediate(() => controller.abort(new Error("enough"))),
    });
    await assert.rejects(waiting, { message: "enough" });
  });

  it("fails, and does not end its program, when no descriptor is left", () => {
    const file = join(import.meta.dirname, "file-lock.ts");
    const script = `
      const { acquireFileLock } = await import(${JSON.stringify(file)});
      const { openSync } = await import("node:fs");
      try { for (;;) openSync("/dev/null", "r"); } catch {}
      const code = await acquireFileLock("lock").then(() => "taken", (error) => error.code);
      await new Promise((resolve) => setTimeout(resolve, 10));
      process.stdout.write(code);`;
    const limited = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"';
    const { stdout, stderr } = spawnSync("sh", ["-c", limited, process.execPath, script]);
    assert.equal(stdout.toString(), "LOCK_UNAVAILABLE", stderr.toString());
  });

  it("says when the lock cannot be taken at all", async () => {
    await assert.rejects(acquireFileLock("/nonexistent/lock"), (error) =>
      LockError.is(error, "LOCK_UNAVAILABLE"),
    );
  });
});

function temporaryLock(): Disposable & { readonly path: string } {
  const folder = temporaryFolder();
  return { path: join(folder.path, "lock"), [Symbol.dispose]: () => folder.remove() };
}
