import assert from "node:assert/strict";
import type { watch } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { watchOrPoll } from "./watch-or-poll.ts";

function failsWith(code: string): typeof watch {
  return () => {
    throw Object.assign(new Error(code), { code });
  };
}

describe("watchOrPoll()", { timeout: 10_000 }, () => {
  it("names the entry of a folder that changed", async () => {
    using folder = temporaryFolder();
    const changed = Promise.withResolvers<string | undefined>();
    using _watch = watchOrPoll(folder.path, changed.resolve);
    await writeFile(path.join(folder.path, "a"), "");
    assert.equal(await changed.promise, "a");
  });

  for (const code of ["EMFILE", "ENOSPC"])
    it(`calls back at intervals where no watch is left (${code})`, async () => {
      const twice = Promise.withResolvers<void>();
      let calls = 0;
      const onChange = (): void => void (++calls === 2 && twice.resolve());
      using _watch = watchOrPoll("/", onChange, { intervalMs: 1, watch: failsWith(code) });
      await twice.promise;
    });

  it("calls back at intervals where watching is possible, if it should", async () => {
    using folder = temporaryFolder();
    const twice = Promise.withResolvers<void>();
    let calls = 0;
    const onChange = (): void => void (++calls === 2 && twice.resolve());
    using _watch = watchOrPoll(folder.path, onChange, { recheckMs: 1 });
    await twice.promise;
  });

  it("throws when there is nothing to watch", () => {
    assert.throws(() => watchOrPoll("/does-not-exist", () => {}), { code: "ENOENT" });
  });
});
