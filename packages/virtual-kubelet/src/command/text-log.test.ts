import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger } from "@kip/base";
import { fieldTexts, levelOf, textLine } from "./text-log.ts";

describe("textLine() (G1)", () => {
  const cases: readonly (readonly [string, Readonly<Record<string, unknown>>, string])[] = [
    ["no field", {}, ""],
    ["one field", { a: 1 }, "a=1"],
    ["two fields, sorted", { b: "x", a: 1 }, "a=1 b=x"],
    ["no command to a terminal", { a: "\u001B[2J" }, 'a="\\u001b[2J"'],
    ["what would be misread", { a: "x y", b: "", c: { d: 1 } }, `a="x y" b="" c="{\\"d\\":1}"`],
  ];
  for (const [name, fields, expected] of cases)
    it(`shows ${name}`, () => assert.equal(fieldTexts(fields).join(" "), expected));

  it("is one line of what the logger says", () => {
    const lines: string[] = [];
    const logger = createLogger({ write: (record) => lines.push(textLine(record)) });
    logger.with({ node: "n" }).info("Registered the node", { attempt: 2 });
    assert.match(lines[0] ?? "", /^\S+Z INFO {2}Registered the node attempt=2 node=n$/);
    assert.equal(levelOf(JSON.stringify({ level: "warn" })), "warn");
    const bare = textLine(JSON.stringify({ level: "info", msg: "Hello", a: 1 }), {
      hasHeader: false,
    });
    assert.equal(bare, "Hello a=1");
  });
});
