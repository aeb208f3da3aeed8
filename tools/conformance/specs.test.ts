import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { focusOf, parseReport, parseSpecs } from "./specs.ts";

/** A report as ginkgo writes it, with the fields that are read. */
function report(...nodes: readonly object[]): string {
  const node = {
    ContainerHierarchyTexts: null,
    LeafNodeType: "It",
    LeafNodeText: "",
    State: "passed",
    RunTime: 0,
    Failure: { Message: "" },
  };
  return JSON.stringify([{ SpecReports: nodes.map((each) => ({ ...node, ...each })) }]);
}

describe("parseSpecs()", () => {
  it("finds the specs of both sets, sorted, with SIG, set and whether they are serial", () => {
    const specs = parseSpecs(
      report(
        { LeafNodeType: "BeforeSuite" },
        {
          ContainerHierarchyTexts: ["[sig-node] Pods", "when they end"],
          LeafNodeText: "are gone [NodeConformance]",
        },
        {
          ContainerHierarchyTexts: ["[sig-api-machinery] Lists"],
          LeafNodeText: "are whole [Serial] [Conformance]",
          IsSerial: true,
        },
        { ContainerHierarchyTexts: ["[sig-apps] Job"], LeafNodeText: "is slow [Slow]" },
      ),
    );
    assert.deepEqual(specs, [
      {
        name: "[sig-api-machinery] Lists are whole [Serial] [Conformance]",
        sig: "api-machinery",
        isConformance: true,
        isSerial: true,
      },
      {
        name: "[sig-node] Pods when they end are gone [NodeConformance]",
        sig: "node",
        isConformance: false,
        isSerial: false,
      },
    ]);
  });

  it("finds none in a report without specs", () => {
    assert.deepEqual(parseSpecs(JSON.stringify([{ SpecReports: null }])), []);
  });

  it("refuses what is not a report", () => {
    assert.throws(() => parseSpecs("{}"), { code: "DECODE_FAILED" });
  });
});

describe("parseReport()", () => {
  it("leaves out specs that were not chosen, and keeps those that skip themselves", () => {
    const found = parseReport(
      report(
        { LeafNodeText: "not chosen", State: "skipped" },
        { LeafNodeText: "two", State: "skipped", Failure: { Message: "needs two nodes" } },
        { LeafNodeText: "three", State: "failed", RunTime: 2.5e9, Failure: { Message: "no" } },
        { LeafNodeType: "SynchronizedBeforeSuite", State: "failed", Failure: { Message: "down" } },
      ),
    );
    assert.deepEqual(found, [
      { name: "two", state: "skipped", seconds: 0, message: "needs two nodes" },
      { name: "three", state: "failed", seconds: 2.5, message: "no" },
      { name: "SynchronizedBeforeSuite", state: "failed", seconds: 0, message: "down" },
    ]);
  });
});

describe("focusOf()", () => {
  it("quotes what a pattern would read as an operator", () => {
    assert.equal(focusOf("[sig-a] b (c|d) e+"), " \\[sig-a\\] b \\(c\\|d\\) e\\+$");
  });
});
