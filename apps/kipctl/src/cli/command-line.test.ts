import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { OptionError } from "@kip/base";
import { readCommandLine, type LetteredOption } from "./command-line.ts";

const table: readonly LetteredOption[] = [
  { flag: "output", letter: "o", type: "string", help: "" },
  { flag: "filename", letter: "f", type: "string", help: "" },
  { flag: "stdin", letter: "i", type: "boolean", help: "" },
  { flag: "tty", letter: "t", type: "boolean", help: "" },
  { flag: "help", type: "boolean", help: "" },
];
const read = (...args: readonly string[]) => readCommandLine(table, args, {});

describe("readCommandLine()", () => {
  const forms: readonly (readonly string[])[] = [
    ["get", "pods", "-o", "json"],
    ["get", "-o", "json", "pods"],
    ["-ojson", "get", "pods"],
    ["get", "-o=json", "pods"],
    ["get", "pods", "--output", "json"],
    ["get", "pods", "--output=json"],
  ];
  for (const form of forms)
    it(`reads ${form.join(" ")}`, () => {
      const { words, rest, options } = read(...form);
      assert.deepEqual(words, ["get", "pods"]);
      assert.equal(rest, undefined);
      assert.equal(options.text("output"), "json");
    });

  it("reads letters together, the last one with a value", () => {
    const { options } = read("-itojson");
    assert.deepEqual(
      [options.isSet("stdin"), options.isSet("tty"), options.text("output")],
      [true, true, "json"],
    );
  });

  it("leaves what comes after -- to another program", () => {
    const { words, rest, options } = read("exec", "web", "-i", "--", "sh", "-c", "ls -o --");
    assert.deepEqual(words, ["exec", "web"]);
    assert.deepEqual(rest, ["sh", "-c", "ls -o --"]);
    assert.equal(options.text("output"), undefined);
  });

  it("takes - for a file, as a value and as a word", () => {
    assert.equal(read("-f", "-").options.text("filename"), "-");
    assert.deepEqual(read("create", "-").words, ["create", "-"]);
  });

  it("names the nearest flag", () => {
    assert.throws(
      () => read("--outptu=json"),
      (error) =>
        OptionError.is(error, "OPTION_UNKNOWN") && error.remedy === "Did you mean --output?",
    );
  });

  for (const args of [["-z"], ["-iz"], ["-o"], ["--output"]])
    it(`refuses ${args.join(" ")}`, () => {
      assert.throws(
        () => read(...args),
        (error) => OptionError.is(error) && error.message.includes(args[0] ?? ""),
      );
    });
});
