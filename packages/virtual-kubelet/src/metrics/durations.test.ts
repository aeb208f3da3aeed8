import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Durations } from "./durations.ts";
import { metricsText } from "./metrics-text.ts";

describe("Durations", () => {
  it("counts into each bucket all durations up to its bound, by labels", () => {
    const durations = new Durations([0.1, 1]);
    for (const seconds of [0.05, 0.1, 0.5, 7]) durations.observe({ step: "apply" }, seconds);
    durations.observe({ step: "remove" }, 0.5);
    assert.deepEqual(durations.counts(), [
      { labels: { step: "apply" }, value: 4 },
      { labels: { step: "remove" }, value: 1 },
    ]);
    const samples = durations.samples();
    const text = metricsText([{ name: "d", type: "histogram", help: "Steps.", samples }]);
    assert.deepEqual(text.split("\n"), [
      "# HELP d Steps.",
      "# TYPE d histogram",
      'd_bucket{step="apply",le="0.1"} 2',
      'd_bucket{step="apply",le="1"} 3',
      'd_bucket{step="apply",le="+Inf"} 4',
      'd_sum{step="apply"} 7.65',
      'd_count{step="apply"} 4',
      'd_bucket{step="remove",le="0.1"} 0',
      'd_bucket{step="remove",le="1"} 1',
      'd_bucket{step="remove",le="+Inf"} 1',
      'd_sum{step="remove"} 0.5',
      'd_count{step="remove"} 1',
      "",
    ]);
  });
});
