import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { growth } from "@kip/base/testing";
import { LatestLine, longestReport, maxLineBytes } from "./latest-line.ts";

const push = (lines: LatestLine, text: string): string | undefined => lines.push(Buffer.from(text));

describe("LatestLine", () => {
  it("gives the newest complete line and keeps the rest", () => {
    const lines = new LatestLine();
    assert.equal(push(lines, "a\nb\nc"), "b");
    assert.equal(push(lines, "d\n"), "cd");
  });

  it("takes blank lines for signs of life", () => {
    const lines = new LatestLine();
    assert.equal(push(lines, "\n"), undefined);
    assert.equal(push(lines, "a\n\n"), "a");
  });

  it("always ends up with the last line, however the text is cut", () => {
    const line = fc.stringMatching(/^[a-z]{1,8}$/);
    fc.assert(
      fc.property(fc.array(line, { minLength: 1 }), fc.integer({ min: 1, max: 9 }), (all, cut) => {
        const text = all.map((one) => `${one}\n`).join("");
        const lines = new LatestLine();
        let newest: string | undefined;
        for (let at = 0; at < text.length; at += cut)
          newest = push(lines, text.slice(at, at + cut)) ?? newest;
        assert.equal(newest, all.at(-1));
      }),
    );
  });

  it("refuses a line without end", () => {
    const lines = new LatestLine();
    assert.throws(() => push(lines, "x".repeat(2 * maxLineBytes)), {
      code: "AGENT_ANSWER_INVALID",
    });
  });

  it("takes the longest line, and none longer, in however many pieces", () => {
    const line = "x".repeat(maxLineBytes);
    for (const size of [maxLineBytes, 1000]) {
      for (const tooMuch of [0, 1]) {
        const lines = new LatestLine();
        const send = (): string | undefined => {
          const text = `${line}${"y".repeat(tooMuch)}\n`;
          let newest: string | undefined;
          for (let at = 0; at < text.length; at += size)
            newest = push(lines, text.slice(at, at + size)) ?? newest;
          return newest;
        };
        if (tooMuch === 0) assert.equal(send(), line);
        else assert.throws(send, { code: "AGENT_ANSWER_INVALID" });
      }
    }
  });

  it("hostile cell: keeps no more of a cell that sends no line end than a report of its pod may have", () => {
    let containers = 1;
    const lines = new LatestLine(() => longestReport(containers));
    push(lines, "x".repeat(longestReport(1)));
    assert.throws(() => push(lines, "x"), { code: "AGENT_ANSWER_INVALID" });
    containers = 2;
    push(lines, "x".repeat(longestReport(2) - longestReport(1)));
    assert.throws(() => push(lines, "x\n"), { code: "AGENT_ANSWER_INVALID" });
    assert.ok(longestReport(1) <= 520 * 1024);
    assert.equal(longestReport(1000), maxLineBytes);
    assert.equal(longestReport(Infinity), maxLineBytes);
  });

  it("keeps characters whole whose bytes come apart", () => {
    const lines = new LatestLine();
    const [first, ...rest] = Buffer.from("\u20ac\n");
    assert.equal(lines.push(Buffer.from([first ?? 0])), undefined);
    assert.equal(lines.push(Buffer.from(rest)), "\u20ac");
  });

  it("takes linear time for a line that comes byte by byte", async () => {
    const piece = Buffer.from("x");
    const work = (size: number): void => {
      const lines = new LatestLine();
      for (let count = 0; count < size; count += 1) lines.push(piece);
    };
    assert.ok((await growth(work, maxLineBytes)) < 40);
  });
});
