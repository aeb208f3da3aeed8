import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { LimitedLog } from "./limited-log.ts";

describe("LimitedLog", () => {
  it("keeps the end of what was written, in two files of limited size", () => {
    using folder = temporaryFolder();
    const file = path.join(folder.path, "log");
    for (let run = 0; run < 2; run++) {
      using log = new LimitedLog(file, 100);
      for (let line = 0; line < 1000; line++) log.write(Buffer.from(`line ${line}\n`));
    }
    assert.deepEqual(readdirSync(folder.path).sort(), ["log", "log.1"]);
    for (const name of ["log", "log.1"])
      assert.ok(statSync(path.join(folder.path, name)).size <= 100, name);
    assert.match(readFileSync(file, "utf8"), /line 999\n$/);
  });
});
