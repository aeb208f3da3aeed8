import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { notAskable } from "./not-askable.ts";
import { conformancePage } from "./page.ts";
import type { Outcome, Result } from "./results.ts";
import type { Spec } from "./specs.ts";

const spec = (sig: string, text: string): Spec => ({
  name: `[sig-${sig}] ${text} [Conformance]`,
  sig,
  isConformance: true,
  isSerial: false,
});
const result = ({ name }: Spec, outcome: Outcome, reason = ""): [string, Result] => [
  name,
  { name, outcome, seconds: 1, reason },
];

describe("conformancePage()", () => {
  const specs = [
    spec("node", "starts"),
    spec("node", "ends a|b"),
    spec("node", "waits"),
    spec("apps", notAskable[1]?.spec ?? ""),
    spec("apps", "has figures"),
    spec("apps", "answers"),
  ];
  const [starts, ends, , , figures, answers] = specs as [Spec, Spec, Spec, Spec, Spec, Spec];
  const page = conformancePage({
    specs,
    kubernetes: "v1.2.3",
    causes: [{ spec: "answers", reason: "the known cause" }],
    results: new Map([
      result(starts, "passed"),
      result(ends, "timed out", "too late"),
      result(figures, "skipped", "needs a cloud"),
      result(answers, "failed", "whatever it said"),
    ]),
  });

  it("counts by SIG, the largest first", () => {
    assert.match(
      page,
      /\| sig-apps \| 3 \| 0 \| 1 \| 2 \| 0 \|\n\| sig-node \| 3 \| 1 \| 1 \| 0 \| 1 \|/,
    );
    assert.match(page, /\| all \| 6 \| 1 \| 2 \| 2 \| 1 \|/);
    assert.match(page, /Of 6 specs 3 were asked, and 1 passed\./);
  });

  it("gives the reason of each that did not pass: the known cause before what the spec said", () => {
    assert.ok(page.includes("| sig-node | ends a\\|b | failed | `too late` |"));
    assert.ok(page.includes("| sig-apps | answers | failed | the known cause |"));
    assert.ok(page.includes("| sig-apps | has figures | not askable | needs a cloud |"));
    assert.ok(page.includes(`not askable | ${notAskable[1]?.reason}`));
    assert.ok(!page.includes("whatever it said"));
  });
});
