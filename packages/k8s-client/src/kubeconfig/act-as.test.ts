import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { actAs } from "./act-as.ts";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";

describe("actAs()", () => {
  const node = { user: "system:node:kip", groups: ["system:nodes"] };
  let current: Credentials = { verifyServer: true, headers: { Authorization: "Bearer one" } };
  const refused: Credentials[] = [];
  const config: KubeConfig = {
    server: "https://192.0.2.1",
    namespace: "default",
    source: "a test",
    credentials: async () => current,
    forget: (each) => void refused.push(each),
  };

  it("adds the user and its groups, and is the same object as long as nothing has changed", async () => {
    const acting = actAs(config, node);
    const first = await acting.credentials();
    assert.deepEqual(first, {
      verifyServer: true,
      headers: {
        Authorization: "Bearer one",
        "Impersonate-User": "system:node:kip",
        "Impersonate-Group": ["system:nodes"],
      },
    });
    assert.equal(await acting.credentials(), first);
    current = { verifyServer: true, headers: { Authorization: "Bearer two" } };
    assert.equal((await acting.credentials()).headers["Authorization"], "Bearer two");
  });

  it("drops the credentials of its own user that the server refused", async () => {
    const acting = actAs(config, node);
    acting.forget?.(await acting.credentials());
    acting.forget?.({ verifyServer: true, headers: {} });
    assert.deepEqual(refused, [current]);
  });
});
