import assert from "node:assert/strict";
import { appendFileSync, existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { suite, test } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { boundedLog } from "./bounded-log.ts";

suite("boundedLog", () => {
  test("keeps a bounded part of what was written, the newest lines among it", async () => {
    using directory = temporaryFolder();
    const file = path.join(directory.path, "agent.log");
    const log = boundedLog({ write: (text) => appendFileSync(file, text), file, maxBytes: 100 });
    for (let count = 0; count < 1000; count++) log(`line ${count}`);
    const [before, now] = [await readFile(`${file}.1`, "utf8"), await readFile(file, "utf8")];
    assert.ok(before.length < 120 && now.length < 120);
    assert.match(`${before}${now}`, /line 998\nline 999\n$/);
  });

  test("writes on where no file is", async () => {
    using directory = temporaryFolder();
    const file = path.join(directory.path, "agent.log");
    const lines: string[] = [];
    const log = boundedLog({ write: (text) => lines.push(text), file, maxBytes: 1 });
    log("a");
    log("b");
    assert.deepEqual(lines, ["a\n", "b\n"]);
    assert.ok(!existsSync(`${file}.1`));
  });
});
