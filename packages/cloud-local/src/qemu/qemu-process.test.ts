import assert from "node:assert/strict";
import { pbkdf2 } from "node:crypto";
import path from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "@kip/testing";
import { startQemu } from "./qemu-process.ts";

describe("startQemu()", () => {
  it("fails with how QEMU ended, however soon that is", { timeout: 20_000 }, async () => {
    using folder = temporaryFolder();
    const over = new AbortController();
    // Keeps Node's threads busy, so that closing a file takes longer than the end of a program.
    const work = Array.from({ length: 16 }, async () => {
      while (!over.signal.aborted) await promisify(pbkdf2)("secret", "salt", 20_000, 64, "sha512");
    });
    const logFile = path.join(folder.path, "qemu.log");
    const start = startQemu({ program: ["/bin/false"], args: [], logFile });
    await assert.rejects(start, /QEMU ended with code 1$/);
    over.abort();
    await Promise.all(work);
  });
});
