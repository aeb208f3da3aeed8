import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { retryForbidden } from "./node-user.ts";

describe("retryForbidden()", () => {
  const clock = new ManualClock();
  const after = (refusals: number, code: "K8S_FORBIDDEN" | "K8S_NOT_FOUND") => {
    let calls = 0;
    const get = async (): Promise<string> => {
      if (++calls <= refusals) throw new K8sError(code, "no");
      return "found";
    };
    const client = retryForbidden({ get } as unknown as ApiClient, clock); // all that is called
    return { client, calls: () => calls };
  };

  it("asks again while the authorizer does not know the pod yet", async () => {
    const { client } = after(3, "K8S_FORBIDDEN");
    const found = client.get("/");
    await clock.advance(1000);
    assert.equal(await found, "found");
  });

  it("gives up after about a second, and at once after other errors", async () => {
    const never = after(Infinity, "K8S_FORBIDDEN");
    const failure = assert.rejects(never.client.get("/"), { code: "K8S_FORBIDDEN" });
    await clock.advance(2000);
    await failure;
    assert.equal(never.calls(), 6);
    const missing = after(Infinity, "K8S_NOT_FOUND");
    await assert.rejects(missing.client.get("/"), { code: "K8S_NOT_FOUND" });
    assert.equal(missing.calls(), 1);
  });
});
