import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pauseProgram } from "./pause-program.ts";

describe("pauseProgram()", () => {
  for (const [machine, number] of [
    ["x64", 62],
    ["arm64", 183],
  ] as const) {
    it(`makes an executable of ${machine} that begins with its code`, () => {
      const file = pauseProgram(machine);
      assert.equal(file.toString("latin1", 0, 4), "\x7fELF");
      assert.equal(file.readUInt16LE(18), number);
      const loadedAt = file.readBigUInt64LE(80);
      const entry = Number(file.readBigUInt64LE(24) - loadedAt);
      assert.equal(entry, 64 + 56);
      assert.equal(file.readBigUInt64LE(96), BigInt(file.length));
      assert.ok(file.length < 200);
    });
  }

  it("refuses a machine that it has no code for", () => {
    assert.throws(() => pauseProgram("riscv64"), {
      code: "POD_SANDBOX_FAILED",
      message: /riscv64/,
    });
  });
});
