import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock, type Clock } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { createEc2Source, ImdsClient } from "./ec2.ts";
import { CloudInitError } from "./errors.ts";
import { startMetadataServer, type MetadataReply } from "./testing/metadata-server.ts";
import { maxUserDataBytes } from "./config/cloud-config.ts";

const { signal } = new AbortController();

/** Paths of EC2's service and their responses. */
const instance: Readonly<Record<string, string>> = {
  "/latest/user-data": "#cloud-config\n{}\n",
  "/latest/meta-data/instance-id": "i-0123456789abcdef0",
  "/latest/meta-data/local-hostname": "ip-10-0-0-5.ec2.internal",
  "/latest/meta-data/local-ipv4": "10.0.0.5",
  "/latest/meta-data/public-ipv4": "192.0.2.5",
  "/latest/meta-data/ipv6": "2001:db8::5",
  "/latest/meta-data/public-keys/": "0=first\n1=second",
  "/latest/meta-data/public-keys/0/openssh-key": "ssh-ed25519 AAAA first\n",
  "/latest/meta-data/public-keys/1/openssh-key": "ssh-rsa BBBB second",
};

/** Pauses between requests end at once, but time limits of requests do not. */
function impatientClock(): Clock {
  const sleep: Clock["sleep"] = async (ms, end) => await systemClock.sleep(ms > 5000 ? ms : 0, end);
  return { ...systemClock, sleep };
}

/** A service that requires tokens, and returns `token-1`, `token-2`, … */
async function startService(options: {
  readonly paths?: Readonly<Record<string, string>>;
  readonly accepts?: (token: string | undefined) => boolean;
  readonly tokenReply?: (count: number) => MetadataReply;
}) {
  let tokens = 0;
  const { paths = instance, accepts = (token) => token === `token-${tokens}` } = options;
  return await startMetadataServer(({ method, url, headers }) => {
    if (url === "/latest/api/token") {
      if (method !== "PUT") return { status: 405 };
      tokens++;
      assert.equal(headers["x-aws-ec2-metadata-token-ttl-seconds"], "21600");
      return options.tokenReply?.(tokens) ?? { status: 200, body: `token-${tokens}` };
    }
    const token = headers["x-aws-ec2-metadata-token"];
    if (!accepts(Array.isArray(token) ? token[0] : token)) return { status: 401 };
    const body = paths[url];
    return body === undefined ? { status: 404 } : { status: 200, body };
  });
}

describe("createEc2Source()", () => {
  it("reads user data, names, keys and addresses with one session", async () => {
    await using service = await startService({});
    const source = createEc2Source(new ImdsClient({ baseUrl: service.url }));
    assert.equal(await source.isAvailable(signal), true);
    const { userData, ...rest } = await source.read(signal);
    assert.equal(Buffer.from(userData).toString(), "#cloud-config\n{}\n");
    assert.deepEqual(rest, {
      instanceId: "i-0123456789abcdef0",
      localHostname: "ip-10-0-0-5.ec2.internal",
      publicKeys: ["ssh-ed25519 AAAA first", "ssh-rsa BBBB second"],
      addresses: { privateIpv4: "10.0.0.5", publicIpv4: "192.0.2.5", publicIpv6: "2001:db8::5" },
    });
    assert.equal(service.requests.filter((line) => line.startsWith("PUT")).length, 1);
  });

  it("takes a machine without user data, keys and public addresses", async () => {
    await using service = await startService({
      paths: { "/latest/meta-data/instance-id": "i-1" },
    });
    const data = await createEc2Source(new ImdsClient({ baseUrl: service.url })).read(signal);
    assert.equal(data.userData.length, 0);
    assert.deepEqual(data.publicKeys, []);
    assert.deepEqual(Object.values(data.addresses ?? {}).filter(Boolean), []);
  });

  it("is not available where nothing answers, after one request", async () => {
    await using broken = await startService({ tokenReply: () => ({ status: 500 }) });
    const source = createEc2Source(new ImdsClient({ baseUrl: broken.url }));
    assert.equal(await source.isAvailable(signal), false);
    assert.equal(broken.requests.length, 1);
    await broken[Symbol.asyncDispose]();
    assert.equal(await source.isAvailable(signal), false);
  });
});

describe("ImdsClient", () => {
  it("renews its token when the service refuses it", async () => {
    let refuse = true;
    await using service = await startService({
      accepts: (token) => {
        const isFirst = refuse;
        refuse = false;
        return !isFirst && token === "token-2";
      },
    });
    const client = new ImdsClient({ baseUrl: service.url });
    assert.equal(await client.readText("/meta-data/local-ipv4", { signal }), "10.0.0.5");
  });

  it("renews its token before it ends", async () => {
    await using service = await startService({});
    const clock = new ManualClock();
    const client = new ImdsClient({ baseUrl: service.url, clock });
    const puts = () => service.requests.filter((line) => line.startsWith("PUT")).length;
    await client.read("/user-data", { signal });
    await clock.advance(5.3 * 3_600_000);
    await client.read("/user-data", { signal });
    assert.equal(puts(), 1);
    await clock.advance(0.2 * 3_600_000);
    await client.read("/user-data", { signal });
    assert.equal(puts(), 2);
  });

  it("asks a service without sessions without a token", async () => {
    await using service = await startService({
      tokenReply: () => ({ status: 404 }),
      accepts: (token) => token === undefined,
    });
    const client = new ImdsClient({ baseUrl: service.url });
    assert.equal(
      await client.readText("/meta-data/instance-id", { signal }),
      instance["/latest/meta-data/instance-id"],
    );
  });

  it("repeats a request after 503 and gives up after its attempts", async () => {
    await using service = await startService({
      tokenReply: (count) =>
        count < 3 ? { status: 503 } : { status: 200, body: `token-${count}` },
    });
    const patient = new ImdsClient({ baseUrl: service.url, clock: impatientClock() });
    assert.ok(await patient.read("/user-data", { signal }));
    await using broken = await startService({ tokenReply: () => ({ status: 503 }) });
    const client = new ImdsClient({ baseUrl: broken.url, clock: impatientClock(), attempts: 4 });
    await assert.rejects(client.read("/user-data", { signal }), (error) =>
      CloudInitError.is(error, "METADATA_UNAVAILABLE"),
    );
    assert.equal(broken.requests.length, 4);
  });

  it("fails at once for a service that is switched off", async () => {
    await using service = await startService({ tokenReply: () => ({ status: 403 }) });
    const client = new ImdsClient({ baseUrl: service.url });
    await assert.rejects(client.read("/user-data", { signal }), {
      code: "METADATA_INVALID",
      remedy: /Enable the instance metadata service/,
    });
    assert.equal(service.requests.length, 1);
  });

  it("ends an answer that is too large, or takes too long", async () => {
    await using service = await startService({
      paths: { "/latest/user-data": "x".repeat(maxUserDataBytes + 1) },
    });
    const source = new ImdsClient({ baseUrl: service.url });
    await assert.rejects(source.read("/user-data", { maxBytes: maxUserDataBytes, signal }), {
      code: "METADATA_INVALID",
    });
    await using silent = await startService({ tokenReply: () => "never" });
    const client = new ImdsClient({ baseUrl: silent.url, timeoutMs: 20, attempts: 1 });
    await assert.rejects(client.read("/user-data", { signal }), { code: "METADATA_UNAVAILABLE" });
  });

  it("sends neither a redirect's target nor a token to another address", async () => {
    await using other = await startMetadataServer(() => ({ status: 200, body: "stolen" }));
    await using service = await startService({
      tokenReply: () => ({ status: 302, headers: { location: other.url } }),
    });
    await assert.rejects(new ImdsClient({ baseUrl: service.url }).read("/user-data", { signal }), {
      code: "METADATA_INVALID",
    });
    assert.deepEqual(other.requests, []);
  });

  it("stops when its caller does", async () => {
    await using silent = await startService({ tokenReply: () => "never" });
    const stop = new AbortController();
    const reading = new ImdsClient({ baseUrl: silent.url }).read("/user-data", {
      signal: stop.signal,
    });
    stop.abort(new Error("stopped"));
    await assert.rejects(reading, /stopped/);
  });
});
