import assert from "node:assert/strict";
import { utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { templateFacts, templateKey, type MachineShape } from "./template-shape.ts";

async function shapeIn(folder: string): Promise<MachineShape> {
  const file = async (name: string): Promise<string> => {
    await writeFile(path.join(folder, name), name);
    return path.join(folder, name);
  };
  return {
    image: {
      id: "image",
      architecture: "amd64",
      kernel: await file("kernel"),
      initrd: await file("initrd"),
      rootDisk: await file("root"),
      rootDiskBytes: 4,
      cmdline: "quiet",
      isTemplate: true,
      created: "",
    },
    cpus: 1,
    memoryBytes: 2 ** 28,
    rootDiskBytes: 2 ** 30,
    qemu: { program: "/q", version: [7, 2, 0], text: "QEMU 7.2.0", identity: "1" },
    accelerator: "tcg",
  };
}

const keyOf = async (shape: MachineShape): Promise<string> =>
  templateKey(await templateFacts(shape));

describe("templateKey()", () => {
  it("is the same for the same facts in any order", () => {
    assert.equal(templateKey({ a: "1", b: "2" }), templateKey({ b: "2", a: "1" }));
    assert.notEqual(templateKey({ a: "1", b: "2" }), templateKey({ a: "2", b: "1" }));
  });

  it("changes with everything that is in a template", async () => {
    using folder = temporaryFolder();
    const shape = await shapeIn(folder.path);
    const key = await keyOf(shape);
    assert.equal(await keyOf({ ...shape }), key);
    const others: readonly MachineShape[] = [
      { ...shape, cpus: 2 },
      { ...shape, memoryBytes: 2 ** 29 },
      { ...shape, rootDiskBytes: 2 ** 31 },
      { ...shape, accelerator: "kvm" },
      { ...shape, qemu: { ...shape.qemu, text: "QEMU 7.2.1" } },
      { ...shape, qemu: { ...shape.qemu, identity: "2" } },
      { ...shape, image: { ...shape.image, id: "other" } },
      { ...shape, image: { ...shape.image, cmdline: "loud" } },
    ];
    const keys = await Promise.all(others.map(keyOf));
    assert.equal(new Set([key, ...keys]).size, others.length + 1);
    await utimes(shape.image.rootDisk, 1, 1);
    assert.notEqual(await keyOf(shape), key);
  });
});
