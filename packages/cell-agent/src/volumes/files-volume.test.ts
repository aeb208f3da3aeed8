import assert from "node:assert/strict";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { writeFilesVolume } from "./files-volume.ts";
import { pinPath } from "./safe-path.ts";

const file = (name: string, text: string, mode = 0o644) => ({
  path: name,
  data: Buffer.from(text).toString("base64"),
  mode,
});

describe("writeFilesVolume()", () => {
  let directory = "";
  before(async () => {
    directory = await fs.mkdtemp(path.join(os.tmpdir(), "kip-files-"));
  });
  after(async () => {
    await fs.rm(directory, { recursive: true });
  });

  it("shows files through one link that is exchanged as a whole", async () => {
    writeFilesVolume(directory, [file("a", "1"), file("sub/b", "2", 0o600)]);
    const first = await fs.readlink(path.join(directory, "..data"));
    assert.equal(await fs.readFile(path.join(directory, "a"), "utf8"), "1");
    assert.equal(await fs.readFile(path.join(directory, "sub/b"), "utf8"), "2");
    assert.equal((await fs.stat(path.join(directory, "sub/b"))).mode & 0o777, 0o600);
    writeFilesVolume(directory, [file("a", "new"), file("c", "3")]);
    assert.notEqual(await fs.readlink(path.join(directory, "..data")), first);
    assert.equal(await fs.readFile(path.join(directory, "a"), "utf8"), "new");
    const names = (await fs.readdir(directory)).filter((name) => !name.startsWith(".."));
    assert.deepEqual(names.sort(), ["a", "c"]);
    await assert.rejects(fs.stat(path.join(directory, first)));
  });

  it("keeps at most one copy of files that cannot be written, however often it is tried", async () => {
    writeFilesVolume(directory, [file("a", "1")]);
    const bad = [file("a", "2"), file("x".repeat(300), "3")];
    for (let tries = 0; tries < 3; tries++)
      assert.throws(() => writeFilesVolume(directory, bad), { code: "ENAMETOOLONG" });
    const folders = (await fs.readdir(directory)).filter((name) => /^\.\.\d/.test(name));
    assert.equal(folders.length, 2);
    assert.equal(await fs.readFile(path.join(directory, "a"), "utf8"), "1");
  });

  it("touches nothing when nothing changed", async () => {
    writeFilesVolume(directory, [file("a", "same")]);
    const first = await fs.readlink(path.join(directory, "..data"));
    writeFilesVolume(directory, [file("a", "same")]);
    assert.equal(await fs.readlink(path.join(directory, "..data")), first);
    writeFilesVolume(directory, [file("a", "same", 0o755)]);
    assert.notEqual(await fs.readlink(path.join(directory, "..data")), first);
  });

  it("leaves what was made there for a subPath or a mount below the volume", async () => {
    const place = path.join(directory, "shared");
    writeFilesVolume(place, [file("a", "1"), file("b", "2")]);
    pinPath(place, "misspelt/below")[Symbol.dispose]();
    await fs.writeFile(path.join(place, "mounted"), "");
    const { ino } = await fs.stat(path.join(place, "misspelt"));
    writeFilesVolume(place, [file("a", "1"), file("b", "2")]);
    writeFilesVolume(place, [file("a", "new"), file("misspelt", "3"), file("mounted", "4")]);
    assert.equal(await fs.readFile(path.join(place, "a"), "utf8"), "new");
    const names = (await fs.readdir(place)).filter((name) => !name.startsWith(".."));
    assert.deepEqual(names.sort(), ["a", "misspelt", "mounted"]);
    assert.equal((await fs.stat(path.join(place, "misspelt"))).ino, ino);
    assert.equal(await fs.readFile(path.join(place, "mounted"), "utf8"), "");
  });

  it("finishes what an agent that was killed has begun", async () => {
    const place = path.join(directory, "crashed");
    writeFilesVolume(place, [file("old", "1")]);
    // As if killed after switching to the new files, but before linking their names and removing the old ones.
    const previous = await fs.readlink(path.join(place, "..data"));
    await fs.mkdir(path.join(place, "..half-made"));
    await fs.mkdir(path.join(place, "..fresh"));
    await fs.writeFile(path.join(place, "..fresh/new"), "2");
    await fs.chmod(path.join(place, "..fresh/new"), 0o644);
    await fs.rm(path.join(place, "..data"));
    await fs.symlink("..fresh", path.join(place, "..data"));
    writeFilesVolume(place, [file("new", "2")]);
    assert.equal(await fs.readFile(path.join(place, "new"), "utf8"), "2");
    assert.deepEqual((await fs.readdir(place)).sort(), ["..data", "..fresh", "new"]);
    assert.notEqual(previous, "..fresh");
  });

  it("gives files to users, as containers number them", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const files = [file("all", "1"), { ...file("own", "2", 0o600), owner: 1000 }];
    const shown = async (name: string, options: object): Promise<string> => {
      writeFilesVolume(path.join(directory, name), files, options);
      const { uid, gid, mode } = await fs.stat(path.join(directory, name, "own"));
      return `${uid} ${gid} ${(mode & 0o777).toString(8)}`;
    };
    assert.equal(await shown("plain", {}), "1000 0 600");
    assert.equal(await shown("of a group", { group: 2000 }), "1000 2000 640");
    assert.equal(await shown("shifted", { owner: 65_536, group: 2000 }), "66536 67536 640");
    assert.equal((await fs.stat(path.join(directory, "plain", "all"))).uid, 0);
  });

  for (const bad of ["../x", "/x", "a/../../x", "..data", "a//b", "", "."])
    it(`refuses "${bad}"`, async () => {
      assert.throws(() => writeFilesVolume(directory, [file(bad, "x")]), {
        code: "AGENT_VOLUME_INVALID",
      });
    });
});
