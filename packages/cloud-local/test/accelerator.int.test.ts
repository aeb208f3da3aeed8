import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { createLogger } from "@kip/base";
import { chooseAccelerator } from "../src/qemu/accelerator.ts";

const folder = await mkdtemp(path.join(os.tmpdir(), "kip-accelerator-"));
after(() => rm(folder, { recursive: true, force: true }));

/** A QEMU that treats the test guest as the script defines. */
async function fakeQemu(name: string, script: string): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return file;
}

describe("chooseAccelerator()", { timeout: 60_000 }, () => {
  const lines: string[] = [];
  const logger = createLogger({ write: (line) => lines.push(line) });
  const choose = async (name: string, script: string, timeLimitMs = 30_000) =>
    await chooseAccelerator({
      qemu: await fakeQemu(name, script),
      stateDir: path.join(folder, `${name}-state`),
      logger,
      timeLimitMs,
    });

  it("takes KVM once the test guest has run", async () => {
    // The real guest on the real QEMU. Emulation replaces a working KVM.
    const script = `set -- $(echo "$@" | sed "s/-accel kvm -cpu host/-accel tcg -cpu max/")
exec qemu-system-x86_64 "$@"`;
    assert.equal(await choose("works", script), "kvm");
  });

  it("does without a KVM that hangs, and says so in one line", async () => {
    lines.length = 0;
    assert.equal(await choose("hangs", "exec sleep 1000", 200), "tcg");
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /a test guest did not run within 0.2 s/);
  });

  it("does without a KVM that fails, and gives QEMU's reason", async () => {
    lines.length = 0;
    assert.equal(
      await choose("fails", "echo 'Could not access KVM kernel module' >&2; exit 1"),
      "tcg",
    );
    assert.match(lines[0] ?? "", /"reason":"Could not access KVM kernel module"/);
  });

  it("asks once per start of the machine", async () => {
    assert.equal(await choose("once", "exit 99"), "kvm");
    assert.equal(await choose("once", "exit 1"), "kvm");
  });
});
