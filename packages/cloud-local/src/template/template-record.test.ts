import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { rm, truncate, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { findDamage, sealOf, type TemplateFiles, type TemplateRecord } from "./template-record.ts";

async function makeTemplate(
  folder: string,
): Promise<{ readonly record: TemplateRecord; readonly files: TemplateFiles }> {
  const file = (name: string): string => path.join(folder, name);
  const files = {
    folder,
    record: file("template.json"),
    memory: file("memory"),
    disk: file("disk"),
    state: file("state"),
  };
  for (const name of [files.memory, files.disk, files.state]) await writeFile(name, "content");
  const sha256 = createHash("sha256").update("content").digest("hex");
  const record: TemplateRecord = {
    key: "k",
    facts: {},
    memory: await sealOf(files.memory, sha256),
    disk: await sealOf(files.disk, sha256),
    state: await sealOf(files.state, sha256),
    verifiedBootId: "b",
    created: "",
  };
  return { record, files };
}

/** A change within one tick of the kernel's file timestamps would be invisible, and tests are that fast. */
async function overwrite(file: string): Promise<void> {
  await writeFile(file, "CONTENT");
  await utimes(file, 1, 1);
}

describe("findDamage()", () => {
  it("finds none in a template as it was made", async () => {
    using folder = temporaryFolder();
    const { record, files } = await makeTemplate(folder.path);
    assert.equal(await findDamage(record, files), undefined);
  });

  it("finds files that are gone, cut off, written to or replaced", async () => {
    const damages: readonly (readonly [(files: TemplateFiles) => Promise<void>, string])[] = [
      [async (files) => await rm(files.memory), "memory cannot be read"],
      [async (files) => await truncate(files.memory, 3), "memory has another size"],
      [async (files) => await overwrite(files.memory), "memory was changed"],
      [async (files) => await overwrite(files.disk), "disk was changed"],
      [
        async (files) => await writeFile(files.state, "CONTENT"),
        "device state has another content",
      ],
      [async (files) => await rm(files.state), "device state cannot be read"],
    ];
    for (const [damage, expected] of damages) {
      using folder = temporaryFolder();
      const { record, files } = await makeTemplate(folder.path);
      await damage(files);
      assert.equal(await findDamage(record, files), expected);
    }
  });
});
