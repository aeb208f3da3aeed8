import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isAtLeast, parseQemuVersion, readQemuFacts } from "./qemu-version.ts";

describe("parseQemuVersion()", () => {
  it("reads what distributions make of it", () => {
    const debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)";
    assert.deepEqual(parseQemuVersion(debian), [7, 2, 22]);
    assert.deepEqual(parseQemuVersion("QEMU emulator version 10.0"), [10, 0, 0]);
    assert.deepEqual(parseQemuVersion("false (GNU coreutils) 9.1"), [0, 0, 0]);
  });
});

describe("isAtLeast()", () => {
  it("compares numbers, not text", () => {
    assert.ok(isAtLeast([10, 0, 0], [9, 1]));
    assert.ok(isAtLeast([9, 1, 0], [9, 1]));
    assert.ok(!isAtLeast([9, 0, 9], [9, 1]));
  });
});

describe("readQemuFacts()", () => {
  it("gives zeros for a program that says no version", async () => {
    const facts = await readQemuFacts("/bin/false");
    assert.deepEqual([facts.version, facts.text], [[0, 0, 0], ""]);
    assert.equal((await readQemuFacts("/nonexistent/qemu")).identity, "missing");
  });
});
