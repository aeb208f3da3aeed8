import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import { findClusterDns } from "./cluster-facts.ts";

describe("findClusterDns()", () => {
  const find = async (answer: object | Error): Promise<readonly string[]> => {
    const client = {
      get: async () => {
        if (answer instanceof Error) throw answer;
        return answer;
      },
    };
    return await findClusterDns(client as unknown as ApiClient); // the calls that are made
  };

  it("finds the address of the service", async () => {
    assert.deepEqual(await find({ spec: { clusterIP: "10.96.0.10" } }), ["10.96.0.10"]);
  });

  it("finds none where the service is headless, has no address yet or does not exist", async () => {
    assert.deepEqual(await find({ spec: { clusterIP: "None" } }), []);
    assert.deepEqual(await find({}), []);
    assert.deepEqual(await find(new K8sError("K8S_NOT_FOUND", "none")), []);
  });
});
