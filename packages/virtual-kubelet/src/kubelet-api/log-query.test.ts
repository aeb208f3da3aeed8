import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HttpRefusal } from "./transport/answer.ts";
import { parseLogQuery } from "./log-query.ts";

const nowMs = Date.UTC(2026, 0, 1);
const parse = (query: string): object => parseLogQuery(new URLSearchParams(query), nowMs);
const off = { follow: false, previous: false, timestamps: false };

describe("parseLogQuery()", () => {
  it("A1: takes nothing, everything and a time", () => {
    assert.deepEqual(parse(""), off);
    assert.deepEqual(
      parse("follow=true&previous=1&timestamps=T&tailLines=5&limitBytes=1&sinceSeconds=60"),
      {
        follow: true,
        previous: true,
        timestamps: true,
        tailLines: 5,
        limitBytes: 1,
        sinceTimeMs: nowMs - 60_000,
      },
    );
    for (const time of ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00.000%2B02:00"])
      assert.deepEqual(parse(`sinceTime=${time}`), { ...off, sinceTimeMs: nowMs });
  });

  it("takes one stream, but not its last lines (KEP-3288)", () => {
    for (const stream of ["Stdout", "Stderr"])
      assert.deepEqual(parse(`stream=${stream}`), { ...off, stream });
    assert.deepEqual(parse("stream=All&tailLines=1"), { ...off, tailLines: 1 });
  });

  it("tells no lines from all lines", () => {
    assert.deepEqual(parse("tailLines=0"), { ...off, tailLines: 0 });
  });

  it("A1: refuses values that are not numbers, times or booleans, out of range or contradictory", () => {
    for (const query of [
      "tailLines=-1",
      "tailLines=x",
      "tailLines=1.5",
      "limitBytes=0",
      "sinceSeconds=-10",
      "sinceSeconds=0",
      "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
      "sinceTime=yesterday",
      "sinceTime=2026-13-01T00:00:00Z",
      "follow=yes",
      "stream=stderr",
      "stream=Stderr&tailLines=1",
    ]) {
      assert.throws(
        () => parse(query),
        (error) => error instanceof HttpRefusal && error.status === 400,
        query,
      );
    }
  });
});
