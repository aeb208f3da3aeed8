import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import * as decode from "../decode.ts";
import { readJsonRecord } from "./read-json-record.ts";

const document = decode.object({ pid: decode.number });
const folder = temporaryFolder();
after(() => folder.remove());

describe("readJsonRecord()", () => {
  it("reads a file of the expected form", async () => {
    const file = path.join(folder.path, "record");
    await writeFile(file, '{"pid":1}');
    assert.deepEqual(await readJsonRecord(file, document), { pid: 1 });
  });

  for (const [what, text] of [
    ["of another form", '{"pid":"1"}'],
    ["that was cut off", '{"pid"'],
    ["that is empty", ""],
  ] as const) {
    it(`takes a file ${what} for none`, async () => {
      const file = path.join(folder.path, "record");
      await writeFile(file, text);
      assert.equal(await readJsonRecord(file, document), undefined);
    });
  }

  it("gives undefined where there is no file", async () => {
    assert.equal(await readJsonRecord(path.join(folder.path, "none"), document), undefined);
  });

  it("fails when the file cannot be read", async () => {
    await assert.rejects(readJsonRecord(folder.path, document), { code: "EISDIR" });
  });
});
