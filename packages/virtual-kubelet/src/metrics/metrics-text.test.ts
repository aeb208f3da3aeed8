import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { metricsText } from "./metrics-text.ts";

describe("metricsText()", () => {
  it("writes families with labels, times and figures of all kinds", () => {
    const text = metricsText([
      {
        name: "a_total",
        type: "counter",
        help: "of\nall \\ kinds",
        samples: [
          { value: 1.5 },
          { labels: { x: 'say "hi"\n\\', y: "" }, value: Infinity, timeMs: 1_700_000_000_000.4 },
          { suffix: "_bucket", labels: { le: "+Inf" }, value: Number.NaN },
        ],
      },
      { name: "empty", type: "gauge", help: "left out", samples: [] },
    ]);
    assert.equal(
      text,
      [
        "# HELP a_total of\\nall \\\\ kinds",
        "# TYPE a_total counter",
        "a_total 1.5",
        'a_total{x="say \\"hi\\"\\n\\\\",y=""} +Inf 1700000000000',
        'a_total_bucket{le="+Inf"} NaN',
        "",
      ].join("\n"),
    );
  });

  it("hostile cell: keeps each figure on one line, whatever its labels are", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (value) => {
        const samples = [{ labels: { x: value }, value: 1 }];
        const text = metricsText([{ name: "a", type: "gauge", help: "", samples }]);
        const line = text.split("\n")[2] ?? "";
        assert.equal(text.split("\n").length, 4);
        const quoted = /^a\{x="(.*)"\} 1$/s.exec(line)?.[1] ?? "missing";
        const read = quoted.replaceAll(/\\(.)/gs, (_all, letter) =>
          letter === "n" ? "\n" : letter,
        );
        assert.equal(read, value);
      }),
    );
  });
});
