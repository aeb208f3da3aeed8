import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { readBootId } from "../host/host-facts.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import { MachineStore } from "../machine/machine-store.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import { sealOf } from "./template-record.ts";
import { templateFacts, templateKey, type MachineShape } from "./template-shape.ts";
import { TemplateStore } from "./template-store.ts";
import { Templates } from "./templates.ts";

/** The templates of a folder, and their warnings. */
async function open(folder: string) {
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  const machines = new MachineStore(folder);
  await machines.open();
  const options = { templatesDir: path.join(folder, "templates"), templates: true, logger };
  const templates = new Templates(
    { ...options, clock: systemClock } as unknown as ResolvedLocalCloudOptions, // the only fields that are used
    machines,
    {} as LocalNetwork, // not used
  );
  const image = path.join(folder, "image");
  await writeFile(image, "");
  const shape: MachineShape = {
    image: {
      id: "image",
      architecture: "amd64",
      kernel: image,
      initrd: image,
      rootDisk: image,
      rootDiskBytes: 0,
      cmdline: "",
      isTemplate: true,
      created: "",
    },
    cpus: 1,
    memoryBytes: 2 ** 28,
    rootDiskBytes: 2 ** 30,
    qemu: { program: "/q", version: [8, 2, 0], text: "QEMU", identity: "1" },
    accelerator: "tcg",
  };
  return { templates, shape, warnings, store: new TemplateStore(options.templatesDir) };
}

/** As after a build. */
async function make(store: TemplateStore, shape: MachineShape, created: string): Promise<void> {
  const facts = await templateFacts(shape);
  const key = templateKey(facts);
  const files = store.files(key);
  await mkdir(files.folder, { recursive: true });
  const sha256 = createHash("sha256").update("").digest("hex");
  const seals = [files.memory, files.disk, files.state].map(async (file) => {
    await writeFile(file, "");
    return await sealOf(file, sha256);
  });
  const [memory, disk, state] = await Promise.all(seals);
  assert.ok(memory && disk && state);
  const verifiedBootId = await readBootId();
  await store.write(files, { key, facts, memory, disk, state, verifiedBootId, created });
}

describe("Templates", () => {
  it("count copies that fail together as one failure of their template, and none against its successor", async () => {
    using folder = temporaryFolder();
    const { templates, shape, warnings, store } = await open(folder.path);
    await make(store, shape, "2026-01-01T00:00:00Z");
    const [first, second, third] = await Promise.all([1, 2, 3].map(() => templates.find(shape)));
    assert.ok(first && second && third);
    await templates.reportFailure(first, "it was slow", "");
    await templates.reportFailure(second, "its files are gone", "");
    assert.equal(await templates.find(shape), undefined);
    await make(store, shape, "2026-01-01T00:01:00Z");
    await templates.reportFailure(third, "its files are gone", "");
    const other = await templates.find(shape);
    assert.ok(other);
    assert.deepEqual(warnings, ["A machine template is not used"]);
    await templates.reportFailure(other, "it was slow", "");
    assert.equal(await templates.find(shape), undefined);
    assert.deepEqual(warnings.slice(1), ["No machine template is made"]);
  });
});
