import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import { podWith } from "@kip/k8s-types/testing";
import { handlersInApi, rejectRuntimeClass } from "./runtime-class.ts";

describe("rejectRuntimeClass()", () => {
  const answers: Readonly<Record<string, string | Error>> = {
    fast: "crun",
    boxed: "kata",
    gone: new K8sError("K8S_NOT_FOUND", "not found"),
    hidden: new K8sError("K8S_FORBIDDEN", "forbidden"),
    away: new K8sError("K8S_UNAVAILABLE", "away"),
  };
  const get = async (path: string): Promise<object> => {
    const answer = answers[path.split("/").at(-1) ?? ""];
    if (answer instanceof Error) throw answer;
    return { handler: answer };
  };
  const lookUp = handlersInApi({ get } as unknown as Pick<ApiClient, "get">); // the methods that are called
  const judge = async (runtimeClassName: string): Promise<string | undefined> =>
    (await rejectRuntimeClass(podWith({ spec: { runtimeClassName } }), lookUp))?.message;

  it("takes classes of crun, and all where it may not read them", async () => {
    assert.equal(await judge("fast"), undefined);
    assert.equal(await judge("hidden"), undefined);
    assert.equal(await judge(""), undefined);
  });

  it("refuses classes that do not exist, or whose handler cells do not have", async () => {
    const prefix = "spec.runtimeClassName: Failed to create pod sandbox: ";
    assert.equal(await judge("gone"), `${prefix}runtimeclass.node.k8s.io "gone" not found`);
    assert.equal(
      await judge("boxed"),
      `${prefix}no runtime for "kata" is configured; handlers of cells are crun, runc, kip`,
    );
  });

  it("decides nothing while the API server cannot answer", async () => {
    await assert.rejects(judge("away"), { message: "away" });
  });
});
