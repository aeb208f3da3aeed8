import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { hostAptSources } from "./apt-sources.ts";

async function sourcesOf(files: Readonly<Record<string, string>>): Promise<readonly string[]> {
  using apt = temporaryFolder();
  await mkdir(path.join(apt.path, "sources.list.d"));
  for (const [name, text] of Object.entries(files))
    await writeFile(path.join(apt.path, name), text);
  return await hostAptSources(apt.path, "bookworm");
}

describe("hostAptSources()", () => {
  it("reads stanzas", async () => {
    const text = [
      "Types: deb deb-src",
      "# a note",
      "URIs: http://mirror.example/debian",
      "Suites: bookworm bookworm-updates",
      " trixie",
      "Components: main contrib",
      "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
      "",
      "Enabled: no",
      "Types: deb",
      "URIs: http://off.example/debian",
      "Suites: bookworm",
      "Components: main",
    ].join("\n");
    assert.deepEqual(await sourcesOf({ "sources.list.d/debian.sources": text }), [
      "deb http://mirror.example/debian bookworm main",
      "deb http://mirror.example/debian bookworm-updates main",
    ]);
  });

  it("reads lines, with and without options", async () => {
    const text = [
      "# deb http://commented.example/debian bookworm main",
      "deb [arch=amd64 signed-by=/k/debian-archive.gpg] http://a.example/debian/ bookworm main # note",
      "deb http://a.example/debian-security bookworm-security main",
      "deb-src http://a.example/debian bookworm main",
    ].join("\n");
    assert.deepEqual(await sourcesOf({ "sources.list": text }), [
      "deb http://a.example/debian/ bookworm main",
      "deb http://a.example/debian-security bookworm-security main",
    ]);
  });

  it("leaves out third parties and other components", async () => {
    const text = [
      "deb http://a.example/debian bookworm main",
      "deb [signed-by=/k/vendor.gpg] http://vendor.example/debian bookworm main",
      "deb http://apt.vendor.example bookworm main",
      "deb http://b.example/debian bookworm stable",
    ].join("\n");
    assert.deepEqual(await sourcesOf({ "sources.list.d/all.list": text }), [
      "deb http://a.example/debian bookworm main",
    ]);
  });

  it("gives none on a host of another suite", async () => {
    assert.deepEqual(
      await sourcesOf({ "sources.list": "deb http://a.example/debian sid main" }),
      [],
    );
    assert.deepEqual(await sourcesOf({}), []);
  });
});
