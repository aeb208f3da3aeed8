import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { localLayout, type LocalLayout } from "./layout.ts";
import { commonOptions } from "./local-options.ts";
import { removeCache, requireOwnState } from "./own-folders.ts";

async function withFolder(action: (layout: LocalLayout) => Promise<void>): Promise<void> {
  using folder = temporaryFolder();
  const flags = [`--state-dir=${folder.path}/state`, `--cache-dir=${folder.path}/cache`];
  await action(localLayout(parseOptions(commonOptions, flags, {})));
}

describe("requireOwnState()", () => {
  it("refuses a folder with other files, such as a home", async () => {
    await withFolder(async (layout) => {
      mkdirSync(layout.logDir, { recursive: true });
      writeFileSync(path.join(layout.stateDir, "letter.txt"), "");
      for (const verb of ["use", "remove"] as const)
        await assert.rejects(requireOwnState(layout, verb), { code: "FOLDER_FOREIGN" });
    });
  });

  it("takes a new folder, an empty one, and what an interrupted run left at any moment", async () => {
    await withFolder(async (layout) => {
      await requireOwnState(layout, "use");
      mkdirSync(layout.stateDir);
      await requireOwnState(layout, "use");
      mkdirSync(layout.logDir);
      await requireOwnState(layout, "remove");
      writeFileSync(layout.daemonLog, "");
      writeFileSync(path.join(layout.stateDir, "previous-context.1.tmp"), "");
      await requireOwnState(layout, "remove");
    });
  });
});

describe("removeCache()", () => {
  it("removes what kip made, and nothing else", async () => {
    await withFolder(async ({ cacheDir }) => {
      await removeCache(cacheDir);
      for (const name of ["os", "images"])
        mkdirSync(path.join(cacheDir, name), { recursive: true });
      await assert.rejects(removeCache(cacheDir), { code: "FOLDER_FOREIGN" });
      writeFileSync(path.join(cacheDir, "up.lock"), "");
      writeFileSync(path.join(cacheDir, "letter.txt"), "");
      await removeCache(cacheDir);
      assert.deepEqual(readdirSync(cacheDir), ["letter.txt"]);
    });
    await withFolder(async ({ cacheDir }) => {
      mkdirSync(path.join(cacheDir, "os"), { recursive: true });
      writeFileSync(path.join(cacheDir, "up.lock"), "");
      await removeCache(cacheDir);
      assert.ok(!existsSync(cacheDir));
    });
  });
});
