import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import { parseSettings } from "./parse-settings.ts";

describe("parseSettings()", () => {
  it("reads YAML", () => {
    assert.deepEqual(parseSettings("registries:\n- host: a.example\n"), {
      registries: [{ host: "a.example" }],
    });
  });

  it("names the line of what it cannot read, and quotes nothing, which may be a password", () => {
    for (const [text, message] of [
      ["registries:\n- { password: hidden, host: [}\n", "it is not valid YAML, see line 2"],
      ["registries:\n- password: *hidden\n", "it is not valid YAML"],
    ] as const)
      assert.throws(
        () => parseSettings(text),
        (error) => {
          assert.ok(error instanceof SyntaxError);
          assert.ok(error.message.startsWith(message), error.message);
          assert.doesNotMatch(inspect(error), /hidden/);
          return true;
        },
      );
  });
});
