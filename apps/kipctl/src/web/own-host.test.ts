import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isOwnHost } from "./own-host.ts";

describe("isOwnHost()", () => {
  const cases: readonly (readonly [string | undefined, number, boolean])[] = [
    ["127.0.0.1:8010", 8010, true],
    ["localhost:8010", 8010, true],
    ["127.0.0.1", 80, true],
    ["localhost", 80, true],
    ["localhost:80", 80, true],
    ["localhost", 8010, false],
    ["localhost:80", 8010, false],
    ["attacker.example", 80, false],
    ["attacker.example:8010", 8010, false],
    ["localhost.attacker.example", 80, false],
    ["", 80, false],
    [undefined, 80, false],
  ];
  for (const [header, port, expected] of cases)
    it(`${expected ? "takes" : "refuses"} ${header ?? "none"} at port ${port}`, () =>
      assert.equal(isOwnHost(header, port), expected));
});
