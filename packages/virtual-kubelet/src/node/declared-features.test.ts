import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CodedError } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import { declarable } from "./declared-features.ts";

const { signal } = new AbortController();

/** A client whose server returns this for `/version`. */
function server(answer: object | CodedError): ApiClient {
  const get = async (): Promise<object> => {
    if (answer instanceof CodedError) throw answer;
    return answer;
  };
  return { get } as unknown as ApiClient; // what is called here
}

describe("declarable()", () => {
  const cases: readonly (readonly [string, object | CodedError, readonly string[]])[] = [
    ["1.36", { major: "1", minor: "36" }, ["A"]],
    ["a provider's 1.40+", { major: "1", minor: "40+" }, ["A"]],
    ["1.35", { major: "1", minor: "35" }, []],
    ["one that shows no version", {}, []],
    ["one that refuses to tell", new K8sError("K8S_FORBIDDEN", "no"), []],
  ];
  for (const [name, answer, expected] of cases)
    it(`is ${expected.join("") || "nothing"} to ${name}`, async () =>
      assert.deepEqual(await declarable(server(answer), ["A"], signal), expected));

  it("sends no request if there is nothing to declare, and fails if the server fails", async () => {
    const broken = server(new K8sError("K8S_UNAVAILABLE", "away"));
    assert.deepEqual(await declarable(broken, [], signal), []);
    await assert.rejects(declarable(broken, ["A"], signal), /away/);
  });
});
