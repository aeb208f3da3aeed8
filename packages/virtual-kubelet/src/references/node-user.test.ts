import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { fencedClient, K8sError, type ApiClient } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { checkNodeUser, retryForbidden } from "./node-user.ts";

describe("checkNodeUser()", () => {
  const check = async (status: number): Promise<readonly string[]> => {
    const errors: string[] = [];
    const answers = { get: async () => ({}), request: async () => ({ status }) };
    const logger = { ...silentLogger, error: (text: string) => void errors.push(text) };
    await checkNodeUser(answers as unknown as ApiClient, { nodeName: "kip", logger }); // the methods that are called
    return errors;
  };

  it("reports an API server that lets a node make another one", async () => {
    assert.match((await check(201)).join(), /lacks .* NodeRestriction/);
    assert.deepEqual(await check(403), []);
  });
});

describe("retryForbidden()", () => {
  const clock = new ManualClock();
  const after = (refusals: number, code: "K8S_FORBIDDEN" | "K8S_NOT_FOUND") => {
    let calls = 0;
    const get = async (): Promise<string> => {
      if (++calls <= refusals) throw new K8sError(code, "no");
      return "found";
    };
    const client = retryForbidden({ get } as unknown as ApiClient, clock); // the methods that are called
    return { client, calls: () => calls };
  };

  it("asks again while the authorizer does not know the pod yet", async () => {
    const { client } = after(3, "K8S_FORBIDDEN");
    const found = client.get("/");
    await clock.advance(1000);
    assert.equal(await found, "found");
  });

  it("leaves changes to their callers, who may have lost their turn meanwhile", async () => {
    let [isHeld, calls] = [true, 0];
    const refuse = async (): Promise<never> => {
      calls++;
      throw new K8sError("K8S_FORBIDDEN", "no");
    };
    const answers = { patch: refuse, delete: refuse } as unknown as ApiClient; // the methods that are called
    const client = fencedClient(retryForbidden(answers, clock), { isHeld: () => isHeld });
    const failures = [client.patch("/", {}, "merge"), client.delete("/")].map((each) =>
      assert.rejects(each, { code: "K8S_FORBIDDEN" }),
    );
    isHeld = false;
    await clock.advance(2000);
    await Promise.all(failures);
    assert.equal(calls, 2);
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
