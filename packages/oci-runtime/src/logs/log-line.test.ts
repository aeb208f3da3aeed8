import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { parseLogLine, shownTime } from "./log-line.ts";

describe("parseLogLine()", () => {
  it("reads what conmon writes", () => {
    const entry = parseLogLine(Buffer.from("2026-11-21T11:28:30.464839380+00:00 stderr P a  b "));
    assert.deepEqual(entry, {
      time: "2026-11-21T11:28:30.464839380+00:00",
      stream: "stderr",
      isPartial: true,
      content: Buffer.from("a  b "),
    });
  });

  it("takes empty lines and further tags", () => {
    assert.equal(parseLogLine(Buffer.from("t stdout F"))?.content.length, 0);
    assert.equal(parseLogLine(Buffer.from("t stdout F "))?.content.length, 0);
    assert.equal(parseLogLine(Buffer.from("t stdout P:x:y z"))?.isPartial, true);
  });

  it("refuses a line that is not an entry", () => {
    for (const line of ["", "t", "t stdout", "t stdlog F x", "t stdout X x", " stdout", "\0\0\0"])
      assert.equal(parseLogLine(Buffer.from(line)), undefined, line);
  });

  it("keeps every byte of the content", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.boolean(), fc.boolean(), (content, isPartial, isErr) => {
        const head = `2026-01-01T00:00:00Z ${isErr ? "stderr" : "stdout"} ${isPartial ? "P" : "F"} `;
        const entry = parseLogLine(Buffer.concat([Buffer.from(head), content]));
        assert.deepEqual(entry, {
          time: "2026-01-01T00:00:00Z",
          stream: isErr ? "stderr" : "stdout",
          isPartial,
          content: Buffer.from(content),
        });
      }),
    );
  });

  it("takes any bytes without an exception", () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void parseLogLine(Buffer.from(bytes))));
  });
});

describe("shownTime()", () => {
  it("is in UTC with all digits", () => {
    assert.equal(
      shownTime("2026-11-21T11:28:30.464839380+00:00"),
      "2026-11-21T11:28:30.464839380Z",
    );
    assert.equal(
      shownTime("2026-11-21T11:28:30.464839380+02:00"),
      "2026-11-21T09:28:30.464839380Z",
    );
    assert.equal(shownTime("no time"), "no time");
  });
});
