import assert from "node:assert/strict";
import { readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { decode } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { fetchNodePackage, nodePackages } from "./node-package.ts";

const decodePin = decode.object({ package: decode.string, integrity: decode.string });
const decodePins = decode.object({
  node: decode.object({ version: decode.string, amd64: decodePin, arm64: decodePin }),
});

describe("nodePackages", () => {
  it("are those of kip's container image", async () => {
    const file = path.join(import.meta.dirname, "../../../deploy/images/kip.json");
    const { node } = decodePins(JSON.parse(await readFile(file, "utf8")), file);
    for (const architecture of ["amd64", "arm64"] as const) {
      const { package: name, integrity } = node[architecture];
      assert.deepEqual(nodePackages[architecture], { name, version: node.version, integrity });
    }
  });
});

describe("fetchNodePackage()", () => {
  it("says which package npm is in where it is not installed", async (context) => {
    using folder = temporaryFolder();
    const { PATH } = process.env;
    context.after(() => (process.env["PATH"] = PATH));
    // The program that locks the cache.
    await symlink("/usr/bin/flock", path.join(folder.path, "flock"));
    await symlink("/bin/sh", path.join(folder.path, "sh"));
    process.env["PATH"] = folder.path;
    await assert.rejects(fetchNodePackage(nodePackages.arm64, { cacheDir: folder.path }), {
      code: "CELL_IMAGE_TOOLS_MISSING",
      remedy: /apt-get install npm/,
    });
  });
});
