import assert from "node:assert/strict";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { decode } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { RecordFolders } from "./record-folders.ts";

const document = decode.object({ id: decode.string, note: decode.string });

function place() {
  const folder = temporaryFolder();
  const things = path.join(folder.path, "things");
  const open = async () => {
    const folders = new RecordFolders({
      folder: things,
      locks: path.join(folder.path, "locks"),
      name: "thing",
      isForGood: true,
      parse: (text, file) => document(JSON.parse(text), file),
    });
    await folders.open();
    return folders;
  };
  return { things, open, [Symbol.dispose]: () => folder.remove() };
}

describe("RecordFolders", () => {
  it("keeps records and what belongs to them, and forgets both", async () => {
    using here = place();
    const folders = await here.open();
    assert.equal(await folders.read("a"), undefined);
    await folders.add({ id: "a", note: "1" }, async (draft) => {
      await writeFile(path.join(draft, "more"), "x");
    });
    await folders.update({ id: "a", note: "2" });
    const again = await here.open();
    assert.deepEqual(await again.readAll(), [{ id: "a", note: "2" }]);
    assert.deepEqual((await readdir(again.folderOf("a"))).sort(), ["more", "thing.json"]);
    await again.remove("a");
    await again.remove("a");
    assert.deepEqual(await readdir(here.things), []);
  });

  it("removes what was not finished when a process was killed, and nothing else", async () => {
    using here = place();
    await (await here.open()).add({ id: "a", note: "" });
    for (const name of [".new-b", ".removed-c"]) await mkdir(path.join(here.things, name));
    await here.open();
    assert.deepEqual(await readdir(here.things), ["a"]);
  });

  it("does not remove what somebody is just making", async () => {
    using here = place();
    const folders = await here.open();
    const isDrafted = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const adding = folders.lock("a", () =>
      folders.add({ id: "a", note: "" }, async () => {
        isDrafted.resolve();
        await goOn.promise;
      }),
    );
    await isDrafted.promise;
    const opening = here.open();
    goOn.resolve();
    await Promise.all([adding, opening]);
    assert.deepEqual(await readdir(here.things), ["a"]);
  });
});
