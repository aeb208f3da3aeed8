import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { hostArchitecture } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { findImage } from "./image.ts";

const [other = hostArchitecture] = (["amd64", "arm64"] as const).filter(
  (each) => each !== hostArchitecture,
);

describe("findImage()", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), "kip-images-"));
    for (const [id, created, architecture] of [
      ["old", "2026-01-01T00:00:00Z", undefined],
      ["new", "2026-02-01T00:00:00Z", hostArchitecture],
      ["other", "2026-03-01T00:00:00Z", other],
    ] as const) {
      await mkdir(path.join(folder, id));
      const image = {
        kernel: "vmlinuz",
        initrd: "initrd",
        rootDisk: "root.img",
        rootDiskBytes: 1,
        cmdline: "quiet",
        created,
        architecture,
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

  it("finds the newest for a processor, of all or of those that are named", async () => {
    assert.equal((await findImage(folder, {}, other)).id, "other");
    assert.equal((await findImage(folder, { id: "old,other" }, other)).id, "other");
    assert.equal((await findImage(folder, { id: "old other" })).id, "old");
    assert.equal((await findImage(folder, { id: "old other new" })).id, "new");
    await assert.rejects(findImage(folder, { id: "old" }, other), notFound);
  });

  it("does not leave its folder", async () => {
    for (const id of ["../old", "old/../new", ".", "..", ""])
      await assert.rejects(findImage(folder, { id }), notFound, id);
  });

  it("says what does not exist, and which keys it knows", async () => {
    await assert.rejects(findImage(folder, { name: "missing" }), notFound);
    await assert.rejects(findImage(path.join(folder, "nowhere"), {}), notFound);
    await assert.rejects(findImage(folder, { ami: "x" }), (error) =>
      CloudError.is(error, "CLOUD_INVALID_REQUEST"),
    );
  });
});
