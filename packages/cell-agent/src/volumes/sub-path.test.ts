import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { unbindSubPaths } from "./sub-path.ts";

describe("unbindSubPaths()", () => {
  it("unmounts everything at once, because each call reads all mounts of the machine", async () => {
    using folder = temporaryFolder();
    const directory = path.join(folder.path, "run");
    const places = ["0", "1", "mapped-2"].map((name) => path.join(directory, name));
    for (const place of places) fs.mkdirSync(place, { recursive: true });
    const calls: string[][] = [];
    const mounter = {
      ...fakeDependencies().mounter,
      unmount: async (...all: readonly string[]): Promise<void> => void calls.push([...all].sort()),
    };
    await unbindSubPaths(directory, mounter);
    assert.deepEqual(calls, [places]);
    assert.ok(!fs.existsSync(directory));
    await unbindSubPaths(directory, mounter);
    assert.equal(calls.length, 1);
  });
});
