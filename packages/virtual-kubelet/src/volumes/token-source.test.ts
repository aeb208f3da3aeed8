import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { isAbsent } from "../references/reference.ts";
import { createTokenSource } from "./token-source.ts";

const hour = 3_600_000;

describe("createTokenSource()", () => {
  it("keeps a token that is still valid while the API server gives no other one", async () => {
    const clock = new ManualClock();
    let count = 0;
    let isDown = false;
    const client = {
      create: async () => {
        if (isDown) throw new K8sError("K8S_UNAVAILABLE", "down", { retryable: true });
        const expirationTimestamp = new Date(clock.now() + hour).toISOString();
        return { status: { token: `t${++count}`, expirationTimestamp } };
      },
    } as unknown as ApiClient; // what a token source asks for
    const tokens = createTokenSource(client, podWith({}), clock);
    const read = async (): Promise<string> => {
      const { data } = await tokens.token({ expirationSeconds: 3600 });
      return Buffer.from(data).toString();
    };
    assert.equal(await read(), "t1");
    isDown = true;
    await clock.advance(0.9 * hour);
    assert.equal(await read(), "t1");
    await clock.advance(0.2 * hour);
    await assert.rejects(read(), /down/, "one that has expired is not given out");
    isDown = false;
    assert.equal(await read(), "t2");
  });

  it("says of a service account that does not exist that it is absent, and of others not", async () => {
    const read = async (code: "K8S_NOT_FOUND" | "K8S_FORBIDDEN") => {
      const client = {
        create: () => Promise.reject(new K8sError(code, 'serviceaccounts "robot" not found')),
      } as unknown as ApiClient; // what a token source asks for
      const tokens = createTokenSource(client, podWith({}), new ManualClock());
      await tokens.token({ expirationSeconds: 3600 });
    };
    await assert.rejects(read("K8S_NOT_FOUND"), (error) => {
      assert.match(String(error), /serviceaccounts "robot" not found/);
      return isAbsent(error);
    });
    await assert.rejects(read("K8S_FORBIDDEN"), (error) => !isAbsent(error));
  });
});
