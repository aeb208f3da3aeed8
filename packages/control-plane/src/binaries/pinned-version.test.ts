import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pinned } from "./pinned-version.ts";

describe("pinned", () => {
  it("names the versions that the Go modules pin, and no folder of anybody's", async () => {
    const path = join(import.meta.dirname, "../../../../tools/kubernetes/go.mod");
    const modules = await readFile(path, "utf8");
    assert.match(
      modules,
      new RegExp(`^\\tk8s\\.io/kubernetes ${pinned.kubernetes} // indirect$`, "m"),
    );
    assert.match(
      modules,
      new RegExp(`^\\tgo\\.etcd\\.io/etcd/server/v3 ${pinned.etcd} // indirect$`, "m"),
    );
    const staging = pinned.kubernetes.replace("v1.", "v0.");
    const replaced = [...modules.matchAll(/^\t(\S+) => (\S+) (\S+)$/gm)];
    assert.ok(replaced.length > 20);
    for (const [, from, to, version] of replaced)
      assert.deepEqual([to, version], [from, staging], from);
    assert.doesNotMatch(modules, /=> \.{0,2}\//);
  });
});
