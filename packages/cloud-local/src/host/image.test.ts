import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { findImage } from "./image.ts";

describe("findImage()", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), "kip-images-"));
    for (const [id, created] of [
      ["old", "2026-01-01T00:00:00Z"],
      ["new", "2026-02-01T00:00:00Z"],
    ] as const) {
      await mkdir(path.join(folder, id));
      const image = {
        kernel: "vmlinuz",
        initrd: "initrd",
        rootDisk: "root.img",
        rootDiskBytes: 1,
        cmdline: "quiet",
        created,
      };
      await writeFile(path.join(folder, id, "image.json"), JSON.stringify(image));
    }
    await mkdir(path.join(folder, ".half-built"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const notFound = (error: unknown): boolean => CloudError.is(error, "CLOUD_NOT_FOUND");

  it("finds by id, by name, and the newest by nothing", async () => {
    assert.equal((await findImage(folder, { id: "old" })).kernel, path.join(folder, "old/vmlinuz"));
    assert.equal((await findImage(folder, { name: "old" })).id, "old");
    assert.equal((await findImage(folder, {})).id, "new");
  });

  it("does not leave its folder", async () => {
    for (const id of ["../old", "old/../new", ".", "..", ""])
      await assert.rejects(findImage(folder, { id }), notFound, id);
  });

  it("says what does not exist, and which keys it knows", async () => {
    await assert.rejects(findImage(folder, { name: "other" }), notFound);
    await assert.rejects(findImage(path.join(folder, "nowhere"), {}), notFound);
    await assert.rejects(findImage(folder, { ami: "x" }), (error) =>
      CloudError.is(error, "CLOUD_INVALID_REQUEST"),
    );
  });
});
