import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { portOf } from "@kip/base";
import { createEc2Source, ImdsClient } from "@kip/cloud-init";
import { MetadataService } from "./metadata-service.ts";

const { signal } = new AbortController();
const tokenHeader = "x-aws-ec2-metadata-token";
const lifetimeHeader = "x-aws-ec2-metadata-token-ttl-seconds";

async function serve() {
  const service = new MetadataService();
  service.server.listen(0, "127.0.0.1");
  await once(service.server, "listening");
  const url = `http://127.0.0.1:${portOf(service.server)}`;
  const ask = async (path: string, init: RequestInit = {}): Promise<[number, string]> => {
    const answer = await fetch(`${url}/latest/${path}`, init);
    return [answer.status, await answer.text()];
  };
  return {
    service,
    url,
    ask,
    open: async () =>
      (await ask("api/token", { method: "PUT", headers: { [lifetimeHeader]: "60" } }))[1],
    [Symbol.asyncDispose]: async () => {
      service.server.closeAllConnections();
      service.server.close();
      await once(service.server, "close");
    },
  };
}

const entryOf = (id: string) => ({
  userData: Buffer.from(`data of ${id}`),
  paths: new Map([["instance-id", id]]),
});

describe("MetadataService", () => {
  it("gives a machine what its data source asks for, also one that asks before it is known", async () => {
    await using served = await serve();
    const reading = createEc2Source(new ImdsClient({ baseUrl: served.url })).read(signal);
    served.service.set(["127.0.0.1"], entryOf("i-1"));
    const { instanceId, userData, publicKeys } = await reading;
    assert.deepEqual([instanceId, publicKeys], ["i-1", []]);
    assert.equal(Buffer.from(userData).toString(), "data of i-1");
  });

  it("tells nothing without a token of this machine", async () => {
    await using served = await serve();
    served.service.set(["127.0.0.1"], entryOf("i-1"));
    assert.deepEqual(await served.ask("user-data"), [401, ""]);
    const first = await served.open();
    const withFirst = { headers: { [tokenHeader]: first } };
    assert.deepEqual(await served.ask("meta-data/instance-id", withFirst), [200, "i-1"]);
    assert.deepEqual(await served.ask("meta-data/ami-id", withFirst), [404, ""]);
    // Another machine has the address now.
    served.service.delete(["127.0.0.1"]);
    served.service.set(["127.0.0.1"], entryOf("i-2"));
    assert.deepEqual(await served.ask("meta-data/instance-id", withFirst), [401, ""]);
  });

  it("gives no token without a lifetime, or by way of a proxy", async () => {
    await using served = await serve();
    served.service.set(["127.0.0.1"], entryOf("i-1"));
    const token = async (headers: Record<string, string>): Promise<number> =>
      (await served.ask("api/token", { method: "PUT", headers }))[0];
    assert.equal(await token({}), 400);
    assert.equal(await token({ [lifetimeHeader]: "21601" }), 400);
    assert.equal(await token({ [lifetimeHeader]: "60", "x-forwarded-for": "10.0.0.1" }), 403);
    assert.equal(await token({ [lifetimeHeader]: "60" }), 200);
  });
});
