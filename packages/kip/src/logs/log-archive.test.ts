import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { LogArchive } from "./log-archive.ts";

const root = mkdtempSync(path.join(tmpdir(), "kip-archive-"));
const archive = new LogArchive(root, silentLogger);
const all = { follow: false, previous: false, timestamps: false };

describe("LogArchive.read()", () => {
  after(() => rmSync(root, { recursive: true }));
  mkdirSync(path.join(root, "u1"));
  writeFileSync(
    path.join(root, "u1", "main.log"),
    "2026-01-01T00:00:00Z one\n2026-01-01T00:00:10Z two words\n2026-01-01T00:00:20Z \n",
  );

  const read = async (
    options: Partial<Parameters<LogArchive["read"]>[2]>,
  ): Promise<string | undefined> => {
    const stream = await archive.read("u1", "main", { ...all, ...options });
    return stream && (await text(stream));
  };

  it("gives the lines without their times", async () =>
    assert.equal(await read({}), "one\ntwo words\n\n"));
  it("gives the times when asked", async () =>
    assert.match((await read({ timestamps: true })) ?? "", /^2026-01-01T00:00:00Z one\n/));
  it("gives the last lines", async () =>
    assert.equal(await read({ tailLines: 2 }), "two words\n\n"));
  it("gives no line for a tail of 0", async () => assert.equal(await read({ tailLines: 0 }), ""));
  it("cuts at a number of bytes", async () =>
    assert.equal(await read({ limitBytes: 6 }), "one\ntw"));
  it("starts at a time", async () =>
    assert.equal(await read({ sinceTimeMs: Date.parse("2026-01-01T00:00:10Z") }), "two words\n\n"));
  it("says when it has none", async () => {
    assert.equal(await archive.read("u1", "other", all), undefined);
    assert.equal(await read({ previous: true }), undefined);
  });
});
