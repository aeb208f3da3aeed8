// Makes device nodes: needs root.
import assert from "node:assert/strict";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { machineDevices } from "../src/bundle/machine-devices.ts";

const skip = process.getuid?.() === 0 ? false : "needs root";

describe("machineDevices()", { skip }, () => {
  it("finds every device there is now, in folders as well", async () => {
    using folder = temporaryFolder();
    const place = (name: string): string => path.join(folder.path, name);
    for (const name of ["mapper", "bus/usb/001", "pts", "shm"])
      mkdirSync(place(name), { recursive: true });
    const make = async (
      name: string,
      type: string,
      major: number,
      minor: number,
    ): Promise<unknown> =>
      await runCommand("mknod", ["-m", "600", place(name), type, String(major), String(minor)]);
    await make("fuse", "c", 10, 229);
    await make("bus/usb/001/002", "c", 189, 1);
    await make("mapper/data", "b", 253, 300_000);
    for (const name of ["null", "tty", "ptmx", "pts/0", "shm/x"]) await make(name, "c", 1, 3);
    writeFileSync(place("file"), "");
    symlinkSync("fuse", place("link"));
    symlinkSync("..", place("bus/loop"));
    const names = async (): Promise<readonly string[]> =>
      (await machineDevices(folder.path)).map((device) => device.path).sort();
    assert.deepEqual(await names(), ["/dev/bus/usb/001/002", "/dev/fuse", "/dev/mapper/data"]);
    const disk = (await machineDevices(folder.path)).find(({ type }) => type === "b");
    assert.deepEqual(disk, {
      path: "/dev/mapper/data",
      type: "b",
      major: 253,
      minor: 300_000,
      fileMode: 0o600,
      uid: 0,
      gid: 0,
    });
    // A disk that is added, and one that is removed.
    await make("sda", "b", 8, 0);
    rmSync(place("fuse"));
    assert.deepEqual(await names(), ["/dev/bus/usb/001/002", "/dev/mapper/data", "/dev/sda"]);
  });
});
