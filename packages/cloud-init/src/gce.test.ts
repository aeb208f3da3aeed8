import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createGceSource } from "./gce.ts";
import { startMetadataServer } from "./testing/metadata-server.ts";

const { signal } = new AbortController();
const prefix = "/computeMetadata/v1/instance/";

/** A metadata server that requires the clients' header, and sends its own. */
async function startService(paths: Readonly<Record<string, string>>, flavor = "Google") {
  return await startMetadataServer(({ url, headers }) => {
    if (headers["metadata-flavor"] !== "Google") return { status: 403 };
    const body = paths[url.slice(prefix.length)];
    const own = { "metadata-flavor": flavor };
    return body === undefined || !url.startsWith(prefix)
      ? { status: 404, headers: own }
      : { status: 200, body, headers: own };
  });
}

describe("createGceSource()", () => {
  it("reads user data, name and addresses", async () => {
    await using service = await startService({
      id: "5734",
      hostname: "cell.c.project.internal",
      "attributes/user-data": "#cloud-config\n",
      "network-interfaces/0/ip": "10.0.0.5",
      "network-interfaces/0/access-configs/0/external-ip": "192.0.2.5",
    });
    const source = createGceSource({ baseUrl: service.url });
    assert.equal(await source.isAvailable(signal), true);
    const { userData, ...rest } = await source.read(signal);
    assert.equal(Buffer.from(userData).toString(), "#cloud-config\n");
    assert.deepEqual(rest, {
      instanceId: "5734",
      localHostname: "cell.c.project.internal",
      publicKeys: [],
      addresses: { privateIpv4: "10.0.0.5", publicIpv4: "192.0.2.5" },
    });
  });

  it("decodes user data that is marked as base64", async () => {
    await using service = await startService({
      id: "1",
      "attributes/user-data": Buffer.from([0x1f, 0x8b, 0xff]).toString("base64"),
      "attributes/user-data-encoding": "base64",
    });
    const { userData } = await createGceSource({ baseUrl: service.url }).read(signal);
    assert.deepEqual([...userData], [0x1f, 0x8b, 0xff]);
  });

  it("does not take another server's answers for GCE's", async () => {
    await using other = await startService({ id: "1" }, "Other");
    const source = createGceSource({ baseUrl: other.url });
    assert.equal(await source.isAvailable(signal), false);
    await assert.rejects(source.read(signal), { code: "METADATA_INVALID" });
  });
});
