import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { parseDocument, stringify, type ToStringOptions } from "yaml";
import { readYaml } from "./read-yaml.ts";
import { YamlError } from "./yaml-text.ts";

/** The result of the yaml package: with numbers and Booleans, and with all scalars as text. */
function readByPackage(text: string) {
  const read = (schema: "core" | "failsafe") =>
    parseDocument(text, { schema, customTags: ["binary"], logLevel: "silent" });
  const document = read("core");
  if (document.errors.length > 0) return { errors: document.errors };
  return { core: document.toJS() as unknown, failsafe: read("failsafe").toJS() as unknown };
}

/** If we return a text, it has to be the text as written. Everything else has to match YAML's core schema. */
function assertSame(ours: unknown, core: unknown, failsafe: unknown, at = "$"): void {
  if (Array.isArray(ours)) {
    assert.ok(Array.isArray(core) && Array.isArray(failsafe), at);
    assert.equal(ours.length, core.length, at);
    ours.forEach((item, index) =>
      assertSame(item, core[index], failsafe[index], `${at}[${index}]`),
    );
  } else if (isRecord(ours)) {
    assert.ok(isRecord(core) && isRecord(failsafe), at);
    assert.deepEqual(Object.keys(ours), Object.keys(failsafe), at);
    const cores = Object.values(core);
    Object.entries(ours).forEach(([key, item], index) =>
      assertSame(item, cores[index], failsafe[key], `${at}.${key}`),
    );
  } else assert.deepEqual(ours, typeof ours === "string" ? failsafe : core, at);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}

const word = fc.constantFrom(
  ..."a|b|key|true|null|~|0644|12|1.5|-1|yes|http://x|a b|a:b|x#y|é|#!/bin/sh|0x1f|.5|1e3|-|--- |<<|''".split(
    "|",
  ),
);

const value = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, tie("scalar"), tie("list"), tie("map")),
  scalar: fc.oneof(
    word,
    fc.string({ unit: "grapheme" }).filter((text) => !/[\u0085\u2028\u2029\uFEFF]/.test(text)),
    fc
      .array(fc.constantFrom("", " x", "x", "\tx", "x ", "# y", "  "), { maxLength: 6 })
      .map((lines) => lines.join("\n")),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
  ),
  list: fc.array(tie("value"), { maxLength: 4 }),
  map: fc.dictionary(
    fc.oneof(word, fc.string()).filter((key) => key !== "<<"),
    tie("value"),
    { maxKeys: 4 },
  ),
})).value;

const layout: fc.Arbitrary<ToStringOptions> = fc.record({
  indent: fc.integer({ min: 1, max: 4 }),
  indentSeq: fc.boolean(),
  lineWidth: fc.constantFrom(0, 10, 80),
  minContentWidth: fc.constantFrom(0, 10),
  collectionStyle: fc.constantFrom("any" as const, "block" as const, "flow" as const),
  defaultStringType: fc.constantFrom(
    "PLAIN" as const,
    "QUOTE_DOUBLE" as const,
    "QUOTE_SINGLE" as const,
    "BLOCK_LITERAL" as const,
    "BLOCK_FOLDED" as const,
  ),
  flowCollectionPadding: fc.boolean(),
});

/** Parts of lines, combined at random. */
const line = fc
  .tuple(
    fc.constantFrom("", "", "", " ", "  ", "  ", "   ", "    ", "\t"),
    fc.array(
      fc.constantFrom(
        ..."- |- |a: |b: |c:|key|x|x y|[|]|{|}|, |: |'|\"|'q'|\"d\"|\\n|#c| # c| |\t|&a |*a|!!str |!!binary |>|>-|>2|%|@|? |-|:|0|...|---|---  ".split(
          "|",
        ),
        "|",
        "|+",
        "|1-",
      ),
      { maxLength: 5 },
    ),
  )
  .map(([indent, parts]) => indent + parts.join(""));
const document = fc.array(line, { maxLength: 8 }).map((lines) => `${lines.join("\n")}\n`);

/**
 * Where the yaml package differs from YAML 1.2 and PyYAML: an empty line after an escaped line break, and lines with only
 * spaces in a block with an indentation digit. It also refuses lines with only spaces and a tab, which PyYAML accepts.
 */
const misread = /\\\n[ \t]*\n|[|>][+-]?\d[^]*\n +\n|^ *\t[ \t]*(?:#.*)?$/m;

/** Errors of the yaml package for text that PyYAML, which Canonical uses, accepts. */
const stricter: readonly string[] = ["TAB_AS_INDENT", "BAD_INDENT"];

describe("readYaml()", () => {
  it("reads what the yaml package writes, in every layout", () => {
    fc.assert(
      fc.property(value, layout, (content, options) => {
        const text = stringify({ content }, { ...options, aliasDuplicateObjects: false });
        fc.pre(!misread.test(text));
        const expected = readByPackage(text);
        fc.pre(!expected.errors);
        assertSame(readYaml(text).value, expected.core, expected.failsafe);
      }),
      { numRuns: 2000 },
    );
  });

  it("refuses a text, or reads from it what the yaml package does", () => {
    fc.assert(
      fc.property(document, (text) => {
        let ours: unknown;
        try {
          ours = readYaml(text).value;
        } catch (error) {
          assert.ok(error instanceof YamlError, String(error));
          assert.ok(error.line >= 1 && error.column >= 1);
          return;
        }
        fc.pre(!misread.test(text));
        const { errors, core, failsafe } = readByPackage(text);
        // Errors after the first one are about the rest of the text.
        if (errors && stricter.includes(errors[0]?.code ?? "")) return;
        assert.deepEqual(errors, undefined);
        assertSame(ours, core, failsafe);
      }),
      // Use a fixed seed: for one in some 100,000 texts, the package's result differs from YAML 1.2.
      { numRuns: 20000, seed: 20261126 },
    );
  });

  for (const [name, text, expected] of [
    [
      "literal and folded blocks",
      "a: |\n  x\n   y\n\nb: >-\n  x\n  y\n\n  z\n",
      { a: "x\n y\n", b: "x y\nz" },
    ],
    ["chomping", "a: |+\n  x\n\nb: |-\n  x\nc: |2\n   x\n", { a: "x\n\n", b: "x", c: " x\n" }],
    [
      "lists below their key, indented or not",
      "a:\n- x\n- - y\n  - z\nb:\n  - c: 1\n    d: 2\n",
      { a: ["x", ["y", "z"]], b: [{ c: 1, d: 2 }] },
    ],
    [
      "quotes",
      `a: 'it''s'\nb: "\\x41\\u00e9\\ud83d\\ude00\\n"\nc: "x\\\n  y"`,
      { a: "it's", b: "Aé😀\n", c: "xy" },
    ],
    ["flow collections over lines", "a: [x, # c\n  {y: 1, z}]\n", { a: ["x", { y: 1, z: null }] }],
    ["anchors", "a: &x [1, 2]\nb: *x\n", { a: [1, 2], b: [1, 2] }],
    [
      "numbers and Booleans",
      "a: 0644\nb: 644\nc: yes\nd: True\ne: 1.0\nf: ~\ng: !!str 12\n",
      { a: "0644", b: 644, c: "yes", d: true, e: "1.0", f: null, g: "12" },
    ],
    ["the marks of a document", "# c\n--- # d\na: 1\n... # e\n", { a: 1 }],
    [
      "Windows' line ends and a mark of byte order",
      "\uFEFFa: |\r\n  x\r\nb: y\r\n",
      { a: "x\n", b: "y" },
    ],
    [
      "keys of objects",
      "__proto__: 1\nconstructor: 2\n",
      JSON.parse('{"__proto__": 1, "constructor": 2}'),
    ],
  ] as const)
    it(`reads ${name}`, () => {
      assert.deepEqual(plain(readYaml(text).value), expected);
    });

  for (const [text, message] of [
    ["a: b: c", /^line 1, column 4: a text with ": " needs quotes here/],
    ["a: 1\n b: 2", /^line 2, column 3: a key must be indented/],
    ["a:\n  - x\n b: 2", /^line 3, column 2: .*belongs to|indented by more/],
    ["a: [1, 2", /^line 1, column 4: this bracket is not closed/],
    ['a: "x', /^line 1, column 4: this quote is not closed/],
    ['a: "\\q"', /^line 1, column 5: there is no such escape/],
    ["a: 1\na: 2", /^line 2, column 1: this key is there twice/],
    ["a: *x", /^line 1, column 4: there is no such anchor/],
    ["a: &x [*x]", /there is no such anchor/],
    ["a: &x {b: 1}\nc:\n  <<: *x", /^line 3, column 3: merge keys/],
    ["a: !!timestamp 2020-01-01", /^line 1, column 4: of tags only/],
    ["a: !!binary '*'", /this is not base64/],
    ["%YAML 1.1\n---\na: 1", /^line 1, column 1: directives/],
    ["a: 1\n---\nb: 2", /there must be one document only/],
    ["? a\n: b", /keys with "\? " are not supported/],
    ["a: @x", /^line 1, column 4: a value cannot begin with this character/],
    ["a: %x", /a value cannot begin with this character/],
    ["a:\n\t- x", /^line 2, column 1: a tab cannot indent/],
    ["a: \u0007", /^line 1, column 4: a control character/],
    ["a: |x\n  y", /^line 1, column 5: after "\|" only/],
    ["a: - x", /a list must begin on a line of its own/],
    ["a: [b: 1]", /a map in a list needs braces/],
    ["- [] x", /only a comment may follow/],
  ] as const)
    it(`refuses ${JSON.stringify(text)}`, () => {
      assert.throws(
        () => readYaml(text),
        (error) => error instanceof YamlError && message.test(error.message),
      );
    });

  it("takes as many levels and values as it says, and no more", () => {
    const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
    readYaml(nested(64));
    assert.throws(() => readYaml(nested(65)), /more than 64 lists and maps/);
    readYaml(`[${"a,".repeat(49_999)}]`);
    assert.throws(() => readYaml(`[${"a,".repeat(50_000)}]`), /more than 50000 values/);
  });
});

/** Replaces objects by those that JSON.parse makes. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
