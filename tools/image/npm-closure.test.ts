import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { npmClosure, type LockEntries } from "./npm-closure.ts";
import { readRecipe, root } from "./recipe.ts";

const entries: LockEntries = {
  "apps/one": { dependencies: { "@x/two": "1", plain: "1" } },
  "packages/two": { dependencies: { nested: "1", heavy: "1" } },
  "node_modules/@x/two": { link: true, resolved: "packages/two" },
  "node_modules/plain": { dependencies: { nested: "2" } },
  "node_modules/plain/node_modules/nested": { version: "2" },
  "node_modules/nested": { version: "1" },
  "node_modules/heavy": { dependencies: { "of-heavy": "1" } },
  "node_modules/of-heavy": {},
  "node_modules/of-tests": {},
};

function lockedPackages(): LockEntries {
  const lock = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")) as {
    readonly packages: LockEntries;
  }; // npm's format
  return lock.packages;
}

describe("npmClosure()", () => {
  it("has what is needed, of the version that each finds, and nothing else", () => {
    const { workspaces, packages } = npmClosure(entries, "apps/one", ["heavy"]);
    assert.deepEqual(workspaces, ["apps/one", "packages/two"]);
    assert.deepEqual(packages, [
      "node_modules/nested",
      "node_modules/plain",
      "node_modules/plain/node_modules/nested",
    ]);
  });

  it("names a package that the lock file lacks", () => {
    const lacking: LockEntries = { "apps/one": { dependencies: { gone: "1" } } };
    assert.throws(() => npmClosure(lacking, "apps/one", []), /has no gone, which apps\/one needs/);
  });

  it("leaves out of kip's image what only a local cluster needs", () => {
    const { application, leftOut } = readRecipe();
    const { packages, workspaces } = npmClosure(lockedPackages(), application, leftOut);
    assert.ok(packages.includes("node_modules/@aws-sdk/client-ec2"));
    assert.ok(workspaces.includes("packages/kip"));
    const unwanted = /esbuild|typescript|node-linux|testing|control-plane/;
    assert.deepEqual(
      [...packages, ...workspaces].filter((folder) => unwanted.test(folder)),
      [],
    );
  });

  it("has nothing of kip in the image of virtual-kubelet", () => {
    const { application, leftOut } = readRecipe("virtual-kubelet");
    const { packages, workspaces } = npmClosure(lockedPackages(), application, leftOut);
    assert.ok(workspaces.includes("packages/virtual-kubelet"));
    const unwanted =
      /esbuild|typescript|node-linux|testing|control-plane|aws|packages\/(?:kip|cloud)/;
    assert.deepEqual(
      [...packages, ...workspaces].filter((folder) => unwanted.test(folder)),
      [],
    );
  });
});
