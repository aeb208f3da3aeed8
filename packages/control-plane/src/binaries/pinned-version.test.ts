import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ControlPlaneError } from "../errors.ts";
import { corednsVersion } from "./obtain-coredns.ts";
import { findRelease, newest, pinned } from "./pinned-version.ts";

describe("findRelease()", () => {
  for (const release of [pinned, newest])
    it(`${release.kubernetes} is what its Go modules pin, and no folder of anybody's`, async () => {
      const path = join(import.meta.dirname, "../../../../tools", release.modules, "go.mod");
      const modules = await readFile(path, "utf8");
      assert.match(
        modules,
        new RegExp(`^\\tk8s\\.io/kubernetes ${release.kubernetes} // indirect$`, "m"),
      );
      assert.match(
        modules,
        new RegExp(`^\\tgo\\.etcd\\.io/etcd/server/v3 ${release.etcd} // indirect$`, "m"),
      );
      const staging = release.kubernetes.replace("v1.", "v0.");
      const replaced = [...modules.matchAll(/^\t(\S+) => (\S+) (\S+)$/gm)];
      assert.ok(replaced.length > 20);
      for (const [, from, to, version] of replaced)
        assert.deepEqual([to, version], [from, staging], from);
      assert.doesNotMatch(modules, /=> \.{0,2}\//);
    });

  for (const release of [pinned, newest])
    it(`the specs of ${release.kubernetes} are pinned to the same version`, async () => {
      const path = join(import.meta.dirname, "../../../../tools", release.specModules, "go.mod");
      const modules = await readFile(path, "utf8");
      assert.ok(modules.includes(`\tk8s.io/kubernetes ${release.kubernetes} // indirect\n`));
      assert.ok(
        modules.includes(
          `\tk8s.io/api => k8s.io/api ${release.kubernetes.replace("v1.", "v0.")}\n`,
        ),
      );
      assert.doesNotMatch(modules, /=> \.{0,2}\//);
    });

  it(`CoreDNS ${corednsVersion} is what its Go modules pin`, async () => {
    const path = join(import.meta.dirname, "../../../../tools/coredns/go.mod");
    const modules = await readFile(path, "utf8");
    assert.ok(modules.includes(`\nrequire github.com/coredns/coredns ${corednsVersion}\n`));
    assert.doesNotMatch(modules, /=>/);
  });

  it("are found by version, the newest by that word", () => {
    assert.equal(findRelease("newest"), newest);
    assert.equal(findRelease(pinned.kubernetes), pinned);
    assert.throws(
      () => findRelease("v1.2.3"),
      (error) => ControlPlaneError.is(error, "KUBERNETES_UNOBTAINABLE"),
    );
  });
});
