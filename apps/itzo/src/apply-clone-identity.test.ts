import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { netmask } from "./apply-clone-identity.ts";

suite("netmask", () => {
  for (const [bits, mask] of [
    [0, "0.0.0.0"],
    [1, "128.0.0.0"],
    [15, "255.254.0.0"],
    [24, "255.255.255.0"],
    [32, "255.255.255.255"],
  ] as const)
    test(`/${bits}`, () => assert.equal(netmask(bits), mask));
});
