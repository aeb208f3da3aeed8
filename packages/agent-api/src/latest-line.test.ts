import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { LatestLine } from "./latest-line.ts";

describe("LatestLine", () => {
  it("gives the newest complete line and keeps the rest", () => {
    const lines = new LatestLine();
    assert.equal(lines.push("a\nb\nc"), "b");
    assert.equal(lines.push("d\n"), "cd");
  });

  it("takes blank lines for signs of life", () => {
    const lines = new LatestLine();
    assert.equal(lines.push("\n"), undefined);
    assert.equal(lines.push("a\n\n"), "a");
  });

  it("always ends up with the last line, however the text is cut", () => {
    const line = fc.stringMatching(/^[a-z]{1,8}$/);
    fc.assert(
      fc.property(fc.array(line, { minLength: 1 }), fc.integer({ min: 1, max: 9 }), (all, cut) => {
        const text = all.map((one) => `${one}\n`).join("");
        const lines = new LatestLine();
        let newest: string | undefined;
        for (let at = 0; at < text.length; at += cut)
          newest = lines.push(text.slice(at, at + cut)) ?? newest;
        assert.equal(newest, all.at(-1));
      }),
    );
  });

  it("takes a line letter by letter with work that grows with its length, not with its square", () => {
    const takeLetters = (length: number): number => {
      const lines = new LatestLine();
      const startedAt = performance.now();
      for (let at = 0; at < length; at++) lines.push("x");
      assert.equal(lines.push("\n")?.length, length);
      return performance.now() - startedAt;
    };
    const least = (length: number): number =>
      Math.min(...Array.from({ length: 3 }, () => takeLetters(length)));
    takeLetters(1024); // compiled by now
    assert.ok(least(16 * 16_384) < 80 * least(16_384), "16 times the letters, 256 if quadratic");
  });

  it("refuses a line without end", () => {
    const lines = new LatestLine();
    assert.throws(() => lines.push("x".repeat(2 * 1024 * 1024)), { code: "AGENT_ANSWER_INVALID" });
  });
});
