import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { writeOciLayout, type SingleLayerImage } from "./oci-layout.ts";

const image: SingleLayerImage = {
  layer: Buffer.alloc(1024),
  architecture: "amd64",
  config: { Cmd: ["/bin/sh"] },
  tag: "latest",
};

describe("writeOciLayout()", () => {
  it("names every blob by its hash and the manifest in the index", async () => {
    using directory = temporaryFolder();
    const digest = await writeOciLayout(directory.path, image);
    const blobs = path.join(directory.path, "blobs", "sha256");
    for (const name of await readdir(blobs)) {
      const content = await readFile(path.join(blobs, name));
      assert.equal(createHash("sha256").update(content).digest("hex"), name);
    }
    const index = await readFile(path.join(directory.path, "index.json"), "utf8");
    assert.ok(index.includes(digest));
    assert.ok(index.includes('"org.opencontainers.image.ref.name":"latest"'));
  });

  it("gives the same digest each time", async () => {
    using one = temporaryFolder();
    using two = temporaryFolder();
    assert.equal(await writeOciLayout(one.path, image), await writeOciLayout(two.path, image));
  });
});
