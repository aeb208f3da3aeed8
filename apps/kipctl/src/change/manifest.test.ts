import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KipctlError } from "../errors.ts";
import { podsOf } from "./manifest.ts";

const pod = (name: string) => `kind: Pod\nmetadata: {name: ${name}}\nspec: {containers: []}\n`;

describe("podsOf()", () => {
  it("reads documents, lists and JSON", () => {
    const list = JSON.stringify({
      kind: "List",
      items: [{ kind: "Pod", metadata: { name: "c", namespace: "n" }, spec: {} }],
    });
    const pods = podsOf(`${pod("a")}---\n${pod("b")}---\n---\n${list}`, "f");
    assert.deepEqual(
      pods.map(({ name, namespace }) => [name, namespace]),
      [
        ["a", undefined],
        ["b", undefined],
        ["c", "n"],
      ],
    );
  });

  const bad: readonly (readonly [string, string, RegExp, RegExp?])[] = [
    ["nothing", "", /f has no object/],
    ["text that is not YAML", `${pod("a")}---\na: [`, /f, document 2: .*line 5/],
    ["a list", "- 1", /f, document 1: .*an object expected/],
    ["an object without a name", "kind: Pod\nmetadata: {}", /metadata\.name/],
    ["other kinds", "kind: Secret\nmetadata: {name: s}", /is a Secret/, /kubectl apply -f/],
    [
      "the original's units",
      "kind: Pod\nmetadata: {name: p}\nspec: {units: []}",
      /"p" has units/,
      /containers/,
    ],
    ["an alias that grows", "a: &a [1]\nb: &b [*a,*a,*a]\nkind: Pod", /metadata/],
  ];
  for (const [what, text, message, remedy] of bad)
    it(`refuses ${what}`, () => {
      assert.throws(
        () => podsOf(text, "f"),
        (error) =>
          KipctlError.is(error, "MANIFEST_REFUSED") &&
          message.test(error.message) &&
          (remedy === undefined || remedy.test(error.remedy ?? "")),
      );
    });
});
