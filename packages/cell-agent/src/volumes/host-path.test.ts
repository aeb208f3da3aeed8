import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { checkHostPath } from "./host-path.ts";

describe("checkHostPath()", () => {
  it("makes a directory that is missing where the pod does not say what it expects, as container runtimes do", async () => {
    using folder = temporaryFolder();
    const place = path.join(folder.path, "deep", "er");
    await checkHostPath(place, "");
    assert.ok(fs.statSync(place).isDirectory());
    const file = path.join(folder.path, "file");
    fs.writeFileSync(file, "content");
    await checkHostPath(file, "");
    assert.equal(fs.readFileSync(file, "utf8"), "content");
    const missing = path.join(folder.path, "missing");
    await assert.rejects(checkHostPath(missing, "Directory"), { code: "AGENT_VOLUME_INVALID" });
    assert.equal(fs.existsSync(missing), false);
  });
});
