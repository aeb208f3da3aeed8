import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { checkHostPath } from "./host-path.ts";

/** The kubelet's words for what the types require. */
const nouns: Readonly<Record<string, string>> = {
  Directory: "a directory",
  DirectoryOrCreate: "a directory",
  File: "a file",
  FileOrCreate: "a file",
  Socket: "a socket file",
  CharDevice: "a character device",
  BlockDevice: "a block device",
};

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

  it("takes for each type what is of that kind, also behind a symbolic link, and refuses the rest in the kubelet's words", async () => {
    using folder = temporaryFolder();
    const at = (name: string): string => path.join(folder.path, name);
    fs.mkdirSync(at("folder"));
    fs.writeFileSync(at("file"), "content");
    await using server = createServer();
    server.listen(at("socket"));
    await once(server, "listening");
    const places: Readonly<Record<string, string>> = {
      Directory: at("folder"),
      File: at("file"),
      Socket: at("socket"),
      CharDevice: "/dev/null",
    };
    for (const [kind, place] of Object.entries(places)) {
      const link = at(`${kind}-link`);
      fs.symlinkSync(place, link);
      await assertOnly(kind, place);
      await assertOnly(kind, link);
    }
    assert.equal(fs.readFileSync(at("file"), "utf8"), "content");
  });

  const [disk] = fs
    .readdirSync("/dev", { withFileTypes: true })
    .filter((entry) => entry.isBlockDevice());
  const skip = disk === undefined && "there is no block device in /dev";

  it("takes a block device for no other type", { skip }, async () => {
    await assertOnly("BlockDevice", `/dev/${disk?.name}`);
  });

  it("makes a file only with FileOrCreate, and only in a folder that is there", async () => {
    using folder = temporaryFolder();
    const place = path.join(folder.path, "made");
    for (const [type, noun] of Object.entries(nouns))
      if (!type.endsWith("OrCreate"))
        await assertRefused(place, type, `hostPath type check failed: ${place} is not ${noun}`);
    assert.deepEqual(fs.readdirSync(folder.path), []);
    await checkHostPath(place, "FileOrCreate");
    const { size, mode } = fs.statSync(place);
    assert.deepEqual([size, mode & 0o777], [0, 0o644]);
    const deep = path.join(folder.path, "deep", "file");
    await assertRefused(deep, "FileOrCreate", `open ${deep}: no such file or directory`);
    await checkHostPath(path.dirname(deep), "DirectoryOrCreate");
    assert.equal(fs.statSync(path.dirname(deep)).mode & 0o777, 0o755);
    await checkHostPath(deep, "FileOrCreate");
    await assertRefused(place, "Elsewhere", "Elsewhere is an invalid volume type");
  });
});

async function assertRefused(place: string, type: string, message: string): Promise<void> {
  await assert.rejects(checkHostPath(place, type), { code: "AGENT_VOLUME_INVALID", message });
}

/** Checks that only types of this kind accept the path. */
async function assertOnly(kind: string, place: string): Promise<void> {
  for (const [type, noun] of Object.entries(nouns)) {
    if (type.replace("OrCreate", "") === kind) await checkHostPath(place, type);
    else await assertRefused(place, type, `hostPath type check failed: ${place} is not ${noun}`);
  }
}
