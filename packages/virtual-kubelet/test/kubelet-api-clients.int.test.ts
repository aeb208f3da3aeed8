// The kubelet API against clients of our own: who is let in, what is answered, what is bounded.
import assert from "node:assert/strict";
import { once } from "node:events";
import https from "node:https";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import tls from "node:tls";
import { silentLogger, systemClock } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { CertificateAuthority, type KeyPair } from "@kip/pki";
import { VirtualKubeletError } from "@kip/virtual-kubelet";
import {
  startKubeletApi,
  type KubeletApiOptions,
  type RunningKubeletApi,
} from "../src/kubelet-api/index.ts";
import { ProcessProvider } from "./process-provider.ts";
import { askHttps, type Answer } from "./kubelet-api-fixture.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";

const host = "127.0.0.1";
const hourMs = 3_600_000;
const pod = podWith({
  metadata: { name: "p", namespace: "ns", uid: "u1" },
  spec: { containers: [{ name: "c", image: "x" }] },
  status: {
    containerStatuses: [
      {
        name: "c",
        image: "x",
        imageID: "",
        ready: false,
        restartCount: 0,
        state: { waiting: { reason: "ImagePullBackOff" } },
      },
    ],
  },
});

describe("kubelet API towards its clients", { timeout: 120_000 }, () => {
  let authority: CertificateAuthority;
  let server: KeyPair;
  let client: KeyPair;
  let options: KubeletApiOptions;
  let api: RunningKubeletApi;
  const provider = new ProcessProvider(pod, "/tmp");

  before(async () => {
    authority = await CertificateAuthority.create({ commonName: "test", validMs: hourMs });
    server = await issue("server", "server");
    client = await issue("kube-apiserver-kubelet-client", "client");
    options = {
      host,
      port: 0,
      ...server,
      clientCa: authority.certificate,
      handlers: provider,
      logger: silentLogger,
      clock: systemClock,
    };
    api = await startKubeletApi(options);
  });

  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  it("answers its plain routes", async () => {
    assert.deepEqual(await get("/healthz"), [200, "ok"]);
    const pods = await ask("/pods");
    assert.equal(pods.headers["content-type"], "application/json");
    assert.deepEqual(JSON.parse(pods.text), {
      kind: "PodList",
      apiVersion: "v1",
      metadata: {},
      items: [pod],
    });
    assert.equal((await get("/runningpods/"))[0], 200);
    assert.deepEqual(await get("/stats/summary"), [501, "501 not implemented"]);
    assert.deepEqual(await get("/metrics/resource"), [501, "501 not implemented"]);
    assert.equal((await get("/containerLogs/ns/p/c?tailLines=1"))[1], "line 10\n");
  });

  it("answers with logs of the node itself, where its provider has some", async () => {
    const nodeLog = (path: string) =>
      Promise.resolve(path === "cells/c/console" ? "booted\n" : undefined);
    const handlers = Object.assign(new ProcessProvider(pod, "/tmp"), { nodeLog });
    await using other = await startKubeletApi({ ...options, handlers });
    const answers = ["/logs/cells/c/console", "/logs/cells/d/console", "/logs/", "/logs/%2e%2e/c"];
    assert.deepEqual(
      await Promise.all(
        answers.map(async (path) => {
          const { status, text } = await ask(path, {}, client, other.port);
          return [status, text];
        }),
      ),
      [
        [200, "booted\n"],
        [404, "404 page not found"],
        [405, "logs endpoint is disabled."],
        [404, "404 page not found"],
      ],
    );
  });

  it("refuses what is not there, not allowed there or malformed", async () => {
    assert.equal((await get("/"))[0], 404);
    assert.deepEqual(await get("/run/ns/p/c"), [405, "Debug endpoints are disabled."]);
    for (const path of ["/logs/", "/logs/a"])
      assert.deepEqual(await get(path), [405, "logs endpoint is disabled."]);
    assert.deepEqual(await get("/debug/pprof/heap"), [405, "profiling endpoint is disabled."]);
    assert.equal((await get("/checkpoint/ns/p/c"))[0], 405);
    const post = await ask("/pods", { method: "POST" });
    assert.deepEqual([post.status, post.headers["allow"]], [405, "GET"]);
    assert.deepEqual(await get("/containerLogs/ns/q/c"), [404, 'pod "q" does not exist']);
    assert.deepEqual(await get("/containerLogs/ns/p/d"), [
      404,
      'container "d" not found in pod "p"',
    ]);
    assert.equal((await get("/containerLogs/ns/p/c?tailLines=-1"))[0], 400);
    assert.equal((await get("/exec/ns/p/c?command=a&output=1"))[0], 400);
    assert.equal((await get("/exec/ns/p/u2/c?command=a&output=1"))[0], 404);
    // The answer may get lost: the server closes while the client is still sending.
    const bomb = await ask("/pods", { headers: { bomb: "x".repeat(1_100_000) } }).catch(
      () => undefined,
    );
    assert.ok(bomb === undefined || bomb.status === 431);
  });

  it("refuses an upgrade that asks for nothing, for too much or for another protocol", async () => {
    for (const [path, status, text] of [
      ["/exec/ns/p/c?command=a", 400, "you must specify at least 1 of stdin, stdout, stderr"],
      ["/exec/ns/p/c?output=1", 400, "you must specify a command"],
      ["/exec/ns/p/c?command=a&error=1&tty=1", 400, /^you must specify at least 1 of stdin/],
      ["/exec/ns/p/d?command=a&output=1", 404, 'container not found ("d")'],
      ["/exec/ns/q/c?command=a&output=1", 404, 'pod "q" does not exist'],
      ["/pods", 405, "405: Method Not Allowed"],
      ["/nothing", 404, "404 page not found"],
    ] as const) {
      const refused = await upgrade(path);
      assert.ok(!(refused instanceof SpdyTestClient));
      assert.equal(refused.status, status, path);
      if (typeof text === "string") assert.equal(refused.text, text);
      else assert.match(refused.text, text);
    }
    const path = "/exec/ns/p/c?command=a&output=1";
    const version = await upgrade(path, { "X-Stream-Protocol-Version": "v9.channel.k8s.io" });
    assert.ok(!(version instanceof SpdyTestClient));
    assert.equal(version.status, 403);
    assert.match(version.text, /client supports \[v9\.channel\.k8s\.io\], server accepts \[v4/);
  });

  it("takes the client's first protocol that it knows", async () => {
    const session = await upgrade("/exec/ns/p/u1/c?command=echo&command=hi&output=1", {
      "X-Stream-Protocol-Version": "v5.channel.k8s.io, v4.channel.k8s.io, v3.channel.k8s.io",
    });
    assert.ok(session instanceof SpdyTestClient);
    const error = await session.open({ streamType: "error" });
    const out = await session.open({ streamType: "stdout" });
    assert.match((await session.ended(error)).toString(), /"status":"Success"/);
    assert.equal(session.received(out).toString(), "hi\n");
    session.socket.destroy();
  });

  it("refuses clients without a client certificate of its own authority", async () => {
    const other = await CertificateAuthority.create({ commonName: "test", validMs: hourMs });
    const strangers: readonly (KeyPair | undefined)[] = [
      undefined,
      await other.issue({ commonName: "x", usages: ["client"], validMs: hourMs }),
      await issue("x", "server"),
    ];
    for (const stranger of strangers) {
      const answer = await ask("/pods", {}, stranger ?? "none");
      assert.deepEqual([answer.status, answer.text], [401, "Unauthorized"]);
      const refused = await upgrade("/exec/ns/p/c?command=a&output=1", {}, stranger ?? "none");
      assert.ok(!(refused instanceof SpdyTestClient));
      assert.equal(refused.status, 401);
    }
    await assert.rejects(
      once(
        tls.connect({ host, port: api.port, ...tlsClient(client), maxVersion: "TLSv1.1" }),
        "secureConnect",
      ),
    );
  });

  it("asks the authoriser, and lets in the users that it allows", async () => {
    const asked: unknown[] = [];
    await using guarded = await startKubeletApi({
      ...options,
      authorize: async (user, action) => {
        asked.push([user.name, action.verb, action.subresources[0]]);
        return action.verb === "get";
      },
    });
    assert.equal((await ask("/pods", {}, client, guarded.port)).status, 200);
    const path = "/exec/ns/p/c?command=a&output=1";
    const refused = await upgrade(path, {}, client, guarded.port);
    assert.ok(!(refused instanceof SpdyTestClient));
    assert.equal(refused.status, 403);
    assert.match(refused.text, /^Forbidden \(user=kube-apiserver-kubelet-client, verb=create/);
    assert.deepEqual(asked, [
      ["kube-apiserver-kubelet-client", "get", "pods"],
      ["kube-apiserver-kubelet-client", "create", "proxy"],
    ]);
    await using listed = await startKubeletApi({ ...options, allowedUsers: ["somebody"] });
    assert.equal((await ask("/healthz", {}, client, listed.port)).status, 403);
  });

  it("words a missing log as the kubelet does, and cuts a log that fails midway", async () => {
    await using failing = await startKubeletApi({
      ...options,
      handlers: {
        nodeName: "node",
        pods: () => [],
        runningPods: () => [],
        findPod: () => pod,
        logs: async (_pod, _container, { follow }) => {
          if (!follow)
            throw new VirtualKubeletError("VK_NOT_FOUND", "Cannot read the log: there is none");
          return Readable.from(
            (function* () {
              yield "first\n";
              throw new Error("disk gone");
            })(),
          );
        },
      },
    });
    const none = await ask("/containerLogs/ns/p/c", {}, client, failing.port);
    assert.deepEqual(
      [none.status, none.text],
      [400, 'container "c" in pod "p" is waiting to start: trying and failing to pull image'],
    );
    await assert.rejects(ask("/containerLogs/ns/p/c?follow=1", {}, client, failing.port));
    const missing = await upgrade("/portForward/ns/p", {}, client, failing.port);
    assert.ok(!(missing instanceof SpdyTestClient));
    assert.equal(missing.status, 501);
  });

  it("takes new certificates into use while it runs", async () => {
    await using running = await startKubeletApi(options);
    const next = await CertificateAuthority.create({ commonName: "next", validMs: hourMs });
    const pair = await next.issue({
      commonName: "server",
      ipAddresses: [host],
      usages: ["server"],
      validMs: hourMs,
    });
    running.replaceTls({ ...pair, clientCa: next.certificate });
    const user = await next.issue({ commonName: "x", usages: ["client"], validMs: hourMs });
    const ca = next.certificate;
    assert.equal((await ask("/healthz", { ca }, user, running.port)).status, 200);
    assert.equal((await ask("/healthz", { ca }, client, running.port)).status, 401);
    assert.throws(
      () => running.replaceTls({ certificate: "x", key: "y", clientCa: "z" }),
      (error) => VirtualKubeletError.is(error, "VK_TLS_INVALID"),
    );
    assert.equal((await ask("/healthz", { ca }, user, running.port)).status, 200);
  });

  it("says so when its port is taken", async () => {
    await assert.rejects(startKubeletApi({ ...options, port: api.port }), (error) =>
      VirtualKubeletError.is(error, "VK_LISTEN_FAILED"),
    );
  });

  it("keeps serving while clients hold streams half open, up to its limit", async () => {
    const limits = { streamsPerConnection: 50 };
    await using limited = await startKubeletApi({ ...options, limits });
    const hoarders: SpdyTestClient[] = [];
    for (let count = 0; count < 10; count++) {
      const hoarder = await upgrade("/portForward/ns/p", {}, client, limited.port);
      assert.ok(hoarder instanceof SpdyTestClient);
      hoarders.push(hoarder);
      for (let request = 0; request < 100; request++)
        await hoarder.open({ streamType: "data", port: "80", requestID: String(request) });
    }
    for (const hoarder of hoarders) await hoarder.frame("rstStream", 199);
    const refused = hoarders[0]?.frames.filter((frame) => frame.type === "rstStream");
    assert.equal(refused?.length, 50);
    assert.equal((await ask("/healthz", {}, client, limited.port)).status, 200);
    for (const hoarder of hoarders) hoarder.socket.destroy();
  });

  it("CVE-2020-8551: closes connections above its limit: first strangers, then the new one", async () => {
    await using limited = await startKubeletApi({ ...options, limits: { connections: 2 } });
    const connect = async (pair: KeyPair | "none"): Promise<tls.TLSSocket> => {
      const socket = tls.connect({ host, port: limited.port, ...tlsClient(pair) });
      socket.on("error", () => {});
      await once(socket, "secureConnect");
      return socket;
    };
    const strangers = [await connect("none"), await connect(client)];
    for (const stranger of strangers) {
      const closed = once(stranger.resume(), "close");
      const follower = await connect(client);
      follower.write("GET /containerLogs/ns/p/c?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n");
      await once(follower, "data");
      await closed;
    }
    await assert.rejects(ask("/healthz", {}, client, limited.port));
  });

  it("refuses connections of a pod that has many, and keeps some for requests that end", async () => {
    const limits = { podConnections: 2, allPodConnections: 3 };
    const other = podWith({ ...pod, metadata: { name: "q", namespace: "ns", uid: "u2" } });
    const handlers = Object.assign(new ProcessProvider(pod, "/tmp"), {
      findPod: (_namespace: string, name: string) => (name === "q" ? other : pod),
    });
    await using limited = await startKubeletApi({ ...options, limits, handlers });
    const sleep = "c?command=sleep&command=1000&output=1";
    const exec = async (name: string): Promise<SpdyTestClient | Answer> =>
      await upgrade(`/exec/ns/${name}/${sleep}`, {}, client, limited.port);
    const follow = https.request({
      host,
      port: limited.port,
      path: "/containerLogs/ns/p/c?follow=1",
      agent: false,
      ...tlsClient(client),
    });
    follow.on("error", () => {});
    follow.end();
    await once(follow, "response");
    const first = await exec("p");
    assert.ok(first instanceof SpdyTestClient);
    const uses = "connections for exec, attach, port-forward and logs already";
    const remedy = "close some of them, or try again later";
    const refused = await exec("p");
    assert.ok(!(refused instanceof SpdyTestClient));
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "1"]);
    assert.equal(refused.text, `pod "p" has 2 ${uses}; ${remedy}`);
    const log = await ask("/containerLogs/ns/p/c", {}, client, limited.port);
    assert.deepEqual([log.status, log.text], [429, refused.text]);
    const second = await exec("q");
    assert.ok(second instanceof SpdyTestClient);
    const last = await exec("q");
    assert.ok(!(last instanceof SpdyTestClient));
    assert.equal(last.text, `the pods of this node have 3 ${uses}; ${remedy}`);
    assert.equal((await ask("/pods", {}, client, limited.port)).status, 200);
    first.socket.destroy();
    follow.destroy();
    // The server learns of their ends by the network.
    for (let count = 0; count < 2; count++) {
      let next = await exec("q");
      while (!(next instanceof SpdyTestClient)) next = await exec("q");
      next.socket.destroy();
      while ((await ask("/containerLogs/ns/p/c", {}, client, limited.port)).status !== 200);
    }
    second.socket.destroy();
  });

  it("ends running commands when it is closed", async () => {
    const closing = await startKubeletApi(options);
    const session = await upgrade(
      "/exec/ns/p/c?command=sleep&command=1000&output=1",
      {},
      client,
      closing.port,
    );
    assert.ok(session instanceof SpdyTestClient);
    await session.open({ streamType: "error" });
    const out = await session.open({ streamType: "stdout" });
    await session.frame("synReply", out);
    const left = provider.nextAbort.promise;
    await closing[Symbol.asyncDispose]();
    await left;
    await session.closed;
  });

  async function issue(commonName: string, usage: "client" | "server"): Promise<KeyPair> {
    const ipAddresses = [host];
    return await authority.issue({ commonName, ipAddresses, usages: [usage], validMs: hourMs });
  }

  function tlsClient(pair: KeyPair | "none"): tls.SecureContextOptions {
    const ca = authority.certificate;
    return pair === "none" ? { ca } : { ca, cert: pair.certificate, key: pair.key };
  }

  async function get(path: string): Promise<readonly [number, string]> {
    const { status, text } = await ask(path);
    return [status, text];
  }

  async function ask(
    path: string,
    request: https.RequestOptions = {},
    pair: KeyPair | "none" = client,
    port = api.port,
  ): Promise<Answer> {
    const where = { host, port, path, agent: false, ...tlsClient(pair), ...request };
    return await askHttps(where);
  }

  async function upgrade(
    path: string,
    headers: Readonly<Record<string, string>> = {},
    pair: KeyPair | "none" = client,
    port = api.port,
  ): Promise<SpdyTestClient | Answer> {
    const all = { Connection: "Upgrade", Upgrade: "SPDY/3.1", ...headers };
    const where = { host, port, path, method: "POST", agent: false, headers: all };
    return await new Promise((resolve, reject) => {
      const sent = https.request({ ...where, ...tlsClient(pair) }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.once("end", () =>
          resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
        );
      });
      sent.once("upgrade", (_response, socket) => resolve(new SpdyTestClient(socket)));
      sent.once("error", reject);
      sent.end();
    });
  }
});
