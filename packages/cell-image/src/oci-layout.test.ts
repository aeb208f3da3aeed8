import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { decode } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { writeOciLayout, type SingleLayerImage } from "./oci-layout.ts";

const image: SingleLayerImage = {
  layers: [{ layer: Buffer.alloc(1024), architecture: "amd64" }],
  config: { Cmd: ["/bin/sh"] },
  tag: "latest",
};

const decodeIndex = decode.object({
  manifests: decode.list(
    decode.object({ platform: decode.object({ architecture: decode.string }) }),
  ),
});

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

  it("has the manifests of several architectures in an index with the tag", async () => {
    using directory = temporaryFolder();
    const layers = (["amd64", "arm64"] as const).map((architecture, index) => ({
      layer: Buffer.alloc(1024, index),
      architecture,
    }));
    const digest = await writeOciLayout(directory.path, { ...image, layers });
    const [, name = ""] = digest.split(":");
    const file = path.join(directory.path, "blobs", "sha256", name);
    const { manifests } = decodeIndex(JSON.parse(await readFile(file, "utf8")), file);
    assert.deepEqual(
      manifests.map(({ platform }) => platform.architecture),
      ["amd64", "arm64"],
    );
    const top = await readFile(path.join(directory.path, "index.json"), "utf8");
    assert.ok(top.includes(digest));
  });

  it("gives the same digest each time", async () => {
    using one = temporaryFolder();
    using two = temporaryFolder();
    assert.equal(await writeOciLayout(one.path, image), await writeOciLayout(two.path, image));
  });
});
