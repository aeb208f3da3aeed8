import assert from "node:assert/strict";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { AgentError } from "@kip/agent-api";
import { findDisk } from "./find-disk.ts";

describe("findDisk()", { timeout: 60_000 }, () => {
  let folder = "";
  before(async () => {
    folder = await fs.mkdtemp(path.join(os.tmpdir(), "kip-find-"));
  });
  after(async () => {
    await fs.rm(folder, { recursive: true });
  });

  async function newMachine() {
    const root = await fs.mkdtemp(path.join(folder, "machine"));
    const [sysBlock, dev] = [path.join(root, "block"), path.join(root, "dev")];
    await Promise.all([fs.mkdir(sysBlock), fs.mkdir(dev)]);
    const plug = async (name: string, serial: string, sectors = 2048): Promise<void> => {
      const device = path.join(sysBlock, name, "device");
      await fs.mkdir(device, { recursive: true });
      const header = Buffer.from([0, 0x80, 0, serial.length]);
      await fs.writeFile(
        path.join(device, "vpd_pg80"),
        Buffer.concat([header, Buffer.from(serial)]),
      );
      await fs.writeFile(path.join(sysBlock, name, "size"), `${sectors}\n`);
      await fs.writeFile(path.join(dev, name), "");
    };
    return { sysBlock, dev, plug };
  }

  it("finds a disk by its serial number, of whichever kind", async () => {
    const { sysBlock, dev, plug } = await newMachine();
    await plug("sda", "vol1");
    await plug("sdb", "vol2");
    for (const [name, file] of [
      ["vda", "serial"],
      ["nvme0n1", "device/serial"],
    ] as const) {
      await fs.mkdir(path.join(sysBlock, name, "device"), { recursive: true });
      await fs.writeFile(path.join(sysBlock, name, file), `of-${name}  \n`);
      await fs.writeFile(path.join(sysBlock, name, "size"), "8\n");
      await fs.writeFile(path.join(dev, name), "");
    }
    assert.deepEqual(await findDisk("vol2", { sysBlock, dev }), {
      file: path.join(dev, "sdb"),
      sizeBytes: 2 ** 20,
    });
    assert.equal((await findDisk("of-vda", { sysBlock, dev })).sizeBytes, 4096);
    assert.equal((await findDisk("of-nvme0n1", { sysBlock, dev })).sizeBytes, 4096);
  });

  it("waits for one that is plugged in later, and for no longer than it may", async () => {
    const { sysBlock, dev, plug } = await newMachine();
    await plug("sda", "vol");
    const waiting = findDisk("vol1", { sysBlock, dev });
    await plug("sdb", "vol1");
    assert.equal((await waiting).file, path.join(dev, "sdb"));
    await assert.rejects(findDisk("vol3", { sysBlock, dev, limitMs: 20 }), (error) =>
      AgentError.is(error, "AGENT_DISK_ABSENT"),
    );
  });
});
