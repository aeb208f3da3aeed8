import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { readCellConsole } from "./cell-console.ts";

describe("readCellConsole()", () => {
  const asked: string[] = [];
  const driver = {
    consoleOutput: (id: string, maxBytes: number) => {
      asked.push(`${id} ${maxBytes}`);
      return Promise.resolve("booted\n");
    },
    list: () => Promise.resolve([{ id: "i-b", token: "b" } as Instance]), // the fields that are read
  };
  const cells = [
    { metadata: { name: "cell-a", uid: "a" }, status: { instanceID: "i-a" } },
    { metadata: { name: "cell-b", uid: "b" } },
    { metadata: { name: "cell-new", uid: "new" } },
  ];
  const read = async (path: string) => await readCellConsole(path, { cells, driver });

  it("reads the console of the cell's instance", async () => {
    assert.equal(await read("cells/cell-a/console"), "booted\n");
    assert.deepEqual(asked, ["i-a 1048576"]);
  });

  it("finds an instance whose ID is not in the status yet", async () => {
    asked.length = 0;
    assert.equal(await read("cells/cell-b/console"), "booted\n");
    assert.deepEqual(asked, ["i-b 1048576"]);
  });

  it("asks the cloud for no other instance", async () => {
    asked.length = 0;
    for (const path of [
      "cells/cell-new/console",
      "cells/i-a/console",
      "cells/other/console",
      "cells/cell-a",
      "cells/cell-a/disk",
      "cells/cell-a/console/x",
      "instances/cell-a/console",
      "cell-a",
    ])
      assert.equal(await read(path), undefined, path);
    assert.deepEqual(asked, []);
  });
});
