import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EnvFile } from "./env-file.ts";

const valueIn = (text: string, key: string): string => new EnvFile(text).value(key);

describe("EnvFile", () => {
  it("finds a key among comments and blank lines", () => {
    const text = "# settings\n\n  A = 1 \r\nB=two words  \nC=a=b\n";
    assert.deepEqual(
      ["A", "B", "C", "D"].map((key) => valueIn(text, key)),
      ["1", "two words", "a=b", ""],
    );
    assert.equal(valueIn("", "A"), "");
    assert.equal(valueIn("A=1\nA=2\n", "A"), "1");
    assert.equal(valueIn("A='x y'", "A"), "'x y'");
  });

  it("joins lines that end with a backslash", () => {
    assert.equal(valueIn("A=one \\\n  two\\\nthree\nB=2", "A"), "one two three");
  });

  it("refuses what is not such a file, before the key", () => {
    assert.throws(() => valueIn("A=1\nnothing\nB=2\n", "B"), /format at line 2$/);
    assert.equal(valueIn("A=1\nnothing\n", "A"), "1");
    assert.throws(() => valueIn("=1\n", "A"), /format at line 1$/);
    assert.throws(() => valueIn("A=1\\\n\nB=2", "B"), /line 2: blank line in continuation$/);
    assert.throws(() => valueIn("A=1\\\n# no\n", "B"), /line 2: comment in continuation$/);
    assert.throws(() => valueIn("A=1\\\n", "A"), /unfinished line continuation/);
  });
});
