import assert from "node:assert/strict";
import { statSync, symlinkSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { createFile, makeFolder, makeFolderSync } from "./exact-mode.ts";

function modeOf(place: string): number {
  return statSync(place).mode & 0o7777;
}

for (const umask of [0o027, 0o077]) {
  describe(`with umask ${umask.toString(8)}`, () => {
    let previous: number;
    before(() => {
      previous = process.umask(umask);
    });
    after(() => {
      process.umask(previous);
    });

    const ways = {
      "makeFolder()": makeFolder,
      "makeFolderSync()": async (...args: Parameters<typeof makeFolderSync>) =>
        await Promise.resolve(makeFolderSync(...args)),
    };
    for (const [name, make] of Object.entries(ways)) {
      describe(name, () => {
        it("gives a folder exactly the mode that was asked for", async () => {
          using work = temporaryFolder();
          for (const mode of [0o711, 0o755, 0o777, 0o2775, 0o1777]) {
            const folder = path.join(work.path, mode.toString(8));
            await make(folder, mode);
            assert.equal(modeOf(folder), mode);
          }
        });

        it("gives each folder above that it makes the same mode, and leaves others alone", async () => {
          using work = temporaryFolder();
          await make(path.join(work.path, "there"), 0o700);
          await make(path.join(work.path, "there/a/b"), 0o755, { recursive: true });
          await make(path.join(work.path, "there/a"), 0o777, { recursive: true });
          const modes = ["there", "there/a", "there/a/b"].map((it) =>
            modeOf(path.join(work.path, it)),
          );
          assert.deepEqual(modes, [0o700, 0o755, 0o755]);
        });

        it("takes a relative path", async () => {
          using work = temporaryFolder();
          const folder = path.relative(process.cwd(), path.join(work.path, "a/b"));
          await make(folder, 0o751, { recursive: true });
          assert.deepEqual([modeOf(folder), modeOf(path.dirname(folder))], [0o751, 0o751]);
        });

        it("refuses a name that is taken, also by a link", async () => {
          using work = temporaryFolder();
          symlinkSync(work.path, path.join(work.path, "link"));
          await assert.rejects(make(work.path, 0o755), { code: "EEXIST" });
          await assert.rejects(make(path.join(work.path, "link"), 0o755), { code: "EEXIST" });
        });
      });
    }

    it("createFile() gives a file exactly the mode that was asked for", async () => {
      using work = temporaryFolder();
      const place = path.join(work.path, "file");
      await using file = await createFile(place, 0o644);
      await file.writeFile("content");
      assert.equal(modeOf(place), 0o644);
      await assert.rejects(createFile(place, 0o644), { code: "EEXIST" });
    });
  });
}
