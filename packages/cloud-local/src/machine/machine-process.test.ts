import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { readMachinePid } from "./machine-process.ts";
import { MachineStore } from "./machine-store.ts";

describe("readMachinePid()", () => {
  it("reads the beginning alone of a file that QEMU has made huge", async () => {
    using folder = temporaryFolder();
    const pid = path.join(folder.path, "qemu.pid");
    const files = { ...new MachineStore(folder.path).files("i-1"), pid };
    const child = spawn("sh", ["-c", "echo; read line", "sh", pid], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    await once(child.stdout, "data");
    try {
      await writeFile(pid, `${child.pid}\n`);
      await truncate(pid, 2 ** 32); // a hole: more than fits into memory as one text
      assert.equal(await readMachinePid(files), child.pid);
    } finally {
      child.stdin.end();
      await once(child, "exit");
    }
  });
});
