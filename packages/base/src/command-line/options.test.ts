import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError } from "../errors.ts";
import {
  helpText,
  parseOptions,
  uselessOptions,
  type Option,
  type OptionValues,
} from "./options.ts";

const table: readonly Option[] = [
  { flag: "name", type: "string", env: "NAME", fallback: "kip", help: "" },
  { flag: "port", type: "string", help: "" },
  { flag: "quiet", type: "boolean", env: "QUIET", help: "" },
  { flag: "dns", type: "list", help: "" },
  { flag: "workers", type: "string", hasNoEffect: true, help: "there are none" },
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
    ["one dash alone", ["-"], "OPTION_UNKNOWN"],
    ["the negation of a boolean", ["--no-quiet"], "OPTION_UNKNOWN"],
    ["a name of Object's prototype", ["--__proto__=a"], "OPTION_UNKNOWN"],
    ["several letters behind one dash", ["-hq"], "OPTION_UNKNOWN"],
    ["a flag without its value", ["--port"], "OPTION_INVALID"],
    ["a flag where a value belongs", ["--port", "--help"], "OPTION_INVALID"],
  ];
  for (const [name, args, code] of bad)
    it(`refuses ${name}`, () => assert.throws(() => read(...args), { code }));

  it("refuses a flag of one letter behind one dash, whose value would be read wrongly", () => {
    const short: readonly Option[] = [{ flag: "n", type: "string", help: "" }];
    for (const args of [["-n=1"], ["-n1"], ["-n", "1"]])
      assert.throws(() => parseOptions(short, args, {}), { code: "OPTION_UNKNOWN" });
    assert.equal(parseOptions(short, ["--n=1"], {}).text("n"), "1");
  });

  it("refuses what is neither true nor false, and no number in range", () => {
    assert.throws(() => read("--quiet=yes").isSet("quiet"), /true or false/);
    assert.throws(() => read("--port=0").integer("port", { min: 1, max: 9 }), /from 1 to 9/);
    assert.throws(
      () => read().required("port"),
      (error) => OptionError.is(error, "OPTION_MISSING"),
    );
  });

  it("names the nearest flag that has an effect", () => {
    const remedyOf = (arg: string): string | undefined => {
      try {
        read(arg);
      } catch (error) {
        if (OptionError.is(error, "OPTION_UNKNOWN")) return error.remedy;
      }
      return assert.fail(`${arg} is not refused`);
    };
    assert.equal(remedyOf("--prot=80"), "Did you mean --port?");
    assert.equal(remedyOf("--worker=8"), "See --help");
  });

  it("takes one of several words", () => {
    assert.equal(read("--name=b").choice("name", ["a", "b"]), "b");
    assert.throws(
      () => read("--name=c").choice("name", ["a", "b"]),
      (error) =>
        OptionError.is(error, "OPTION_INVALID") &&
        error.message === "Cannot use --name c: one of a, b is expected",
    );
  });
});

describe("parseOptions(), of an option without effect", () => {
  it("is accepted with a notice, and not shown by --help", () => {
    assert.deepEqual(uselessOptions(table, read("--workers=8")), [
      "--workers is deprecated and has no effect: there are none",
    ]);
    assert.deepEqual(uselessOptions(table, read()), []);
    assert.doesNotMatch(helpText("Usage: kip", table), /workers/);
  });
});

describe("helpText()", () => {
  const options: readonly Option[] = [
    { flag: "help", type: "boolean", help: "show this text" },
    { flag: "dns", type: "list", env: ["A", "B"], help: "a server" },
    { flag: "size", type: "string", fallback: "4", help: "word ".repeat(20).trim() },
    { flag: "a-name-that-is-much-too-long", type: "string", help: "short" },
  ];

  it("shows defaults, variables and what may be repeated, with --help last", () => {
    const lines = helpText("Usage: kip", options).split("\n");
    assert.deepEqual(lines.slice(0, 3), ["Usage: kip", "", "Options:"]);
    assert.equal(lines[3], `${"  --dns VALUE".padEnd(33)}a server (repeatable, env A or B)`);
    assert.equal(lines.at(-2), `${"  --help".padEnd(33)}show this text`);
  });

  it("breaks lines at 100 columns, and after a long name", () => {
    const lines = helpText("Usage: kip", options).split("\n");
    assert.ok(lines.every((line) => line.length <= 100));
    assert.equal(lines[5], `${" ".repeat(33)}${"word ".repeat(7)}(default 4)`);
    assert.deepEqual(lines.slice(6, 8), [
      "  --a-name-that-is-much-too-long VALUE",
      `${" ".repeat(33)}short`,
    ]);
  });
});
