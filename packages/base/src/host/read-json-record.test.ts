import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import * as decode from "../decode.ts";
import { readJsonRecord } from "./read-json-record.ts";

const document = decode.object({ pid: decode.number });
let folder: string;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "kip-record-"));
});
after(async () => await rm(folder, { recursive: true }));

describe("readJsonRecord()", () => {
  it("reads a file of the expected form", async () => {
    const file = path.join(folder, "record");
    await writeFile(file, '{"pid":1}');
    assert.deepEqual(await readJsonRecord(file, document), { pid: 1 });
  });

  for (const [what, text] of [
    ["of another form", '{"pid":"1"}'],
    ["that was cut off", '{"pid"'],
    ["that is empty", ""],
  ] as const) {
    it(`takes a file ${what} for none`, async () => {
      const file = path.join(folder, "record");
      await writeFile(file, text);
      assert.equal(await readJsonRecord(file, document), undefined);
    });
  }

  it("gives undefined where there is no file", async () => {
    assert.equal(await readJsonRecord(path.join(folder, "none"), document), undefined);
  });

  it("fails when the file cannot be read", async () => {
    await assert.rejects(readJsonRecord(folder, document), { code: "EISDIR" });
  });
});
