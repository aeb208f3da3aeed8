import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../coded-error.ts";
import { OptionError } from "../errors.ts";
import { parseOptions, type Option, type OptionValues } from "./options.ts";

const table: readonly Option[] = [
  { flag: "name", type: "string", env: "NAME", fallback: "kip", help: "" },
  { flag: "port", type: "string", help: "" },
  { flag: "quiet", type: "boolean", env: "QUIET", help: "" },
  { flag: "dns", type: "list", help: "" },
  { flag: "help", type: "boolean", help: "" },
];

function read(...args: readonly string[]): OptionValues {
  return parseOptions(table, args, { NAME: "", QUIET: "1" });
}

describe("parseOptions()", () => {
  const good: readonly (readonly [
    string,
    readonly string[],
    (seen: OptionValues) => unknown,
    unknown,
  ])[] = [
    ["a value after a space", ["--name", "a"], (seen) => seen.text("name"), "a"],
    ["a value after an equals sign", ["--name=a=b"], (seen) => seen.text("name"), "a=b"],
    ["a value with a dash in front", ["--name=-a"], (seen) => seen.text("name"), "-a"],
    ["an empty value as none", ["--name="], (seen) => seen.required("name"), "kip"],
    ["the last of two", ["--name=a", "--name", "b"], (seen) => seen.text("name"), "b"],
    ["all of a list", ["--dns=a", "--dns", "b"], (seen) => seen.list("dns"), ["a", "b"]],
    ["an empty variable as none", [], (seen) => seen.text("name"), "kip"],
    ["a variable for a boolean", [], (seen) => seen.isSet("quiet"), true],
    ["a boolean that is off", ["--quiet=false"], (seen) => seen.isSet("quiet"), false],
    ["-h", ["-h"], (seen) => seen.isSet("help"), true],
    ["a number", ["--port=80"], (seen) => seen.integer("port", { min: 1, max: 99 }), 80],
  ];
  for (const [name, args, look, expected] of good)
    it(`reads ${name}`, () => assert.deepEqual(look(read(...args)), expected));

  const bad: readonly (readonly [string, readonly string[], string])[] = [
    ["an unknown flag", ["--nam=a"], "OPTION_UNKNOWN"],
    ["a long flag with one dash", ["-port=80"], "OPTION_UNKNOWN"],
    ["a further word", ["--quiet", "yes"], "OPTION_UNKNOWN"],
    ["two dashes alone", ["--"], "OPTION_UNKNOWN"],
    ["a flag without its value", ["--port"], "OPTION_INVALID"],
    ["a flag where a value belongs", ["--port", "--help"], "OPTION_INVALID"],
  ];
  for (const [name, args, code] of bad)
    it(`refuses ${name}`, () =>
      assert.throws(
        () => read(...args),
        (error) => hasCode(error, code),
      ));

  it("refuses what is neither true nor false, and no number in range", () => {
    assert.throws(() => read("--quiet=yes").isSet("quiet"), /true or false/);
    assert.throws(() => read("--port=0").integer("port", { min: 1, max: 9 }), /from 1 to 9/);
    assert.throws(
      () => read().required("port"),
      (error) => OptionError.is(error, "OPTION_MISSING"),
    );
  });
});
