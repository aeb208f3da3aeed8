import assert from "node:assert/strict";
import { once } from "node:events";
import http2, { type Http2SecureServer, type ServerHttp2Session } from "node:http2";
import https from "node:https";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import type { Readable } from "node:stream";
import net from "node:net";
import type { TLSSocket } from "node:tls";
import { bytesOf, portOf, silentLogger, systemClock, type Clock } from "@kip/base";
import { CertificateAuthority } from "@kip/pki";
import { eventually, ManualClock } from "@kip/testing";
import type { ApiClient } from "./api-client.ts";
import { createApiClient } from "./create-api-client.ts";
import type { Credentials } from "../kubeconfig/kubeconfig.ts";

const validMs = 3_600_000;

let authority: CertificateAuthority;
let pair: { cert: string; key: string };
let server: Http2SecureServer;
let credentials: Credentials;
let client: ApiClient;
/** Open sessions, in order of their arrival. */
const sessions: ServerHttp2Session[] = [];
/** Number of all sessions so far. */
let opened = 0;
/** Streams that were requested and not ended, by path. */
const streams = new Map<string, http2.ServerHttp2Stream>();
const seen: http2.IncomingHttpHeaders[] = [];

before(async () => {
  authority = await CertificateAuthority.create({ commonName: "test", validMs });
  const usages = ["server"] as const;
  const issued = await authority.issue({
    commonName: "server",
    ipAddresses: ["127.0.0.1"],
    usages,
    validMs,
  });
  pair = { cert: issued.certificate, key: issued.key };
});

beforeEach(async () => {
  credentials = { ca: Buffer.from(authority.certificate), verifyServer: true, headers: {} };
  await serve(100);
});

afterEach(() => {
  client.close();
  for (const session of sessions) session.destroy();
  server.close();
  streams.clear();
  seen.length = 0;
});

after(() => server.close());

async function serve(maxConcurrentStreams: number, options: http2.SecureServerOptions = {}) {
  opened = 0;
  sessions.length = 0;
  server = http2.createSecureServer({ ...pair, settings: { maxConcurrentStreams }, ...options });
  server.on("sessionError", () => {});
  server.on("session", (session) => {
    opened++;
    sessions.push(session);
    session.on("close", () => sessions.splice(sessions.indexOf(session), 1));
  });
  server.on("stream", (stream, headers) => {
    seen.push(headers);
    const path = headers[":path"] ?? "";
    stream.on("error", () => {});
    if (stream.closed) return;
    stream.on("close", () => streams.delete(path));
    streams.set(path, stream);
    if (path === "/refused") {
      stream.respond({ ":status": 401 }, { endStream: true });
      return;
    }
    stream.respond({ ":status": 200 });
    stream.write("first\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  client = clientOf(portOf(server));
}

function clientOf(port: number, clock: Clock = systemClock): ApiClient {
  return createApiClient(
    {
      server: `https://127.0.0.1:${port}`,
      namespace: "default",
      source: "test",
      credentials: async () => credentials,
      forget: (refused) => {
        if (refused === credentials) credentials = { ...credentials, headers: {} };
      },
    },
    { userAgent: "test/1", logger: silentLogger, clock, sharesStreams: true },
  );
}

async function open(count: number): Promise<readonly Readable[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, index) => await client.stream(`/watch/${index}`)),
  );
}

async function text(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of bytesOf(body)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe("createApiClient() with sharesStreams", () => {
  it("has as many streams on a connection as the server allows, and closes what is unused", async () => {
    const bodies = await open(250);
    assert.equal(sessions.length, 3);
    for (const stream of streams.values()) stream.end("last\n");
    for (const each of await Promise.all(bodies.map(text))) assert.equal(each, "first\nlast\n");
    await eventually(() => sessions.length === 0);
  });

  it("moves on where a server allows fewer streams than is usual", async () => {
    server.close();
    await serve(8);
    await open(30);
    assert.equal(streams.size, 30);
    assert.equal(sessions.length, 4);
  });

  it("takes room that ended streams have left", async () => {
    const bodies = await open(100);
    for (const body of bodies.slice(0, 50)) body.destroy();
    await eventually(() => streams.size === 50);
    await open(50);
    assert.equal(opened, 1);
  });

  it("goes on reading from a server that takes no further requests, and makes these on another connection", async () => {
    const [body] = await open(1);
    assert.ok(body);
    const first = streams.get("/watch/0");
    sessions[0]?.goaway(http2.constants.NGHTTP2_NO_ERROR);
    await eventually(async () => {
      const next = await client.stream("/next");
      next.destroy();
      return opened > 1;
    });
    assert.equal(body.destroyed, false);
    first?.end("last\n");
    assert.equal(await text(body), "first\nlast\n");
  });

  it("makes a request again that a server refused unseen", async () => {
    let refusals = 0;
    server.prependListener("stream", (stream) => {
      if (refusals++ > 0) return;
      stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
    });
    const body = await client.stream("/watch");
    assert.equal(refusals, 2);
    body.destroy();
  });

  it("ends all streams of a lost connection, and opens another one", async () => {
    const bodies = await open(3);
    const ended = bodies.map(async (body) => await text(body).catch(() => "failed"));
    sessions[0]?.destroy();
    await Promise.all(ended);
    const body = await client.stream("/again");
    assert.equal(opened, 2);
    body.destroy();
  });

  it("gives up a server that answers no ping", async () => {
    const clock = new ManualClock();
    const sockets: net.Socket[] = [];
    const relay = net.createServer((incoming) => {
      const outgoing = net.connect(portOf(server), "127.0.0.1");
      sockets.push(incoming, outgoing);
      for (const socket of [incoming, outgoing]) socket.on("error", () => {});
      incoming.pipe(outgoing).pipe(incoming);
    });
    relay.listen(0, "127.0.0.1");
    await once(relay, "listening");
    client = clientOf(portOf(relay), clock);
    const body = await client.stream("/watch");
    await clock.advance(30_000);
    await client.stream("/more"); // the answer to the ping comes before its own
    await clock.advance(30_000);
    assert.equal(body.destroyed, false);
    for (const socket of sockets) socket.unpipe().pause();
    const failed = assert.rejects(text(body), /no ping/);
    await clock.advance(30_000);
    await clock.advance(30_000);
    await failed;
    for (const socket of sockets) socket.destroy();
    relay.close();
  });

  it("gives up a handshake that is not answered, and makes further requests on another connection", async () => {
    const clock = new ManualClock();
    const sockets: net.Socket[] = [];
    const relay = net.createServer((incoming) => {
      sockets.push(incoming.on("error", () => {}));
      if (sockets.length === 1) return;
      const outgoing = net.connect(portOf(server), "127.0.0.1");
      incoming.pipe(outgoing.on("error", () => {})).pipe(incoming);
    });
    relay.listen(0, "127.0.0.1");
    await once(relay, "listening");
    client = clientOf(portOf(relay), clock);
    const waiting = [client.stream("/one"), client.stream("/two")];
    const failed = waiting.map(async (each) => await assert.rejects(each, /20 s/));
    await once(relay, "connection");
    await clock.advance(20_000);
    await Promise.all(failed);
    await client.stream("/three");
    assert.equal(sockets.length, 2);
    for (const socket of sockets) socket.destroy();
    relay.close();
  });

  it("has a connection for each stream where the server speaks HTTP/1.1 alone", async () => {
    const plain = https.createServer(pair, (_request, response) => {
      response.writeHead(200).write("first\n");
      setImmediate(() => response.end("last\n"));
    });
    plain.listen(0, "127.0.0.1");
    await once(plain, "listening");
    client = clientOf(portOf(plain));
    for (const body of await open(3)) assert.equal(await text(body), "first\nlast\n");
    plain.close();
  });

  it("takes room on an open HTTP/2 connection although another server behind the load balancer chose HTTP/1.1", async () => {
    server.close();
    await serve(2);
    let plainRequests = 0;
    const plain = https.createServer(pair, (_request, response) => {
      plainRequests++;
      response.end("done\n");
    });
    plain.listen(0, "127.0.0.1");
    await once(plain, "listening");
    let chosen = portOf(server);
    const balancer = net.createServer((incoming) => {
      const outgoing = net.connect(chosen, "127.0.0.1");
      incoming
        .on("error", () => {})
        .pipe(outgoing.on("error", () => {}))
        .pipe(incoming);
    });
    balancer.listen(0, "127.0.0.1");
    await once(balancer, "listening");
    client = clientOf(portOf(balancer));
    const [first] = await open(2);
    chosen = portOf(plain);
    assert.equal(await text(await client.stream("/full")), "done\n");
    assert.equal(plainRequests, 1);
    first?.destroy();
    await eventually(() => streams.size === 1);
    await client.stream("/room");
    assert.equal(plainRequests, 1);
    assert.equal(streams.size, 2);
    balancer.close();
    plain.close();
  });

  it("asks again for HTTP/2 five minutes after a server chose HTTP/1.1", async () => {
    const clock = new ManualClock();
    const plain = https.createServer(pair, (_request, response) => void response.end("done\n"));
    plain.listen(0, "127.0.0.1");
    await once(plain, "listening");
    let behind = portOf(plain);
    const relay = net.createServer((incoming) => {
      const outgoing = net.connect(behind, "127.0.0.1");
      incoming
        .on("error", () => {})
        .pipe(outgoing.on("error", () => {}))
        .pipe(incoming);
    });
    relay.listen(0, "127.0.0.1");
    await once(relay, "listening");
    client = clientOf(portOf(relay), clock);
    assert.equal(await text(await client.stream("/one")), "done\n");
    await clock.advance(299_999);
    assert.equal(await text(await client.stream("/two")), "done\n");
    behind = portOf(server);
    await clock.advance(1);
    await open(3);
    assert.equal(opened, 1);
    relay.close();
    plain.close();
  });

  it("shows its certificate and headers, and takes new ones for further streams", async () => {
    server.close();
    await serve(100, { requestCert: true, ca: authority.certificate });
    const issue = async (commonName: string): Promise<Pick<Credentials, "cert" | "key">> => {
      const issued = await authority.issue({ commonName, usages: ["client"], validMs });
      return { cert: Buffer.from(issued.certificate), key: Buffer.from(issued.key) };
    };
    const names: unknown[] = [];
    server.on("session", ({ socket }) => {
      names.push((socket as TLSSocket).getPeerCertificate().subject.CN); // of a secure server
    });
    const headers = { Authorization: "Bearer one", "Impersonate-Group": ["a", "b"] };
    credentials = { ...credentials, ...(await issue("before")), headers };
    const before = await client.stream("/watch", { query: { watch: true } });
    assert.equal(seen[0]?.authorization, "Bearer one");
    assert.equal(seen[0]?.["impersonate-group"], "a, b");
    assert.equal(seen[0]?.["user-agent"], "test/1");
    assert.equal(seen[0]?.[":path"], "/watch?watch=true");
    credentials = {
      ...credentials,
      ...(await issue("after")),
      headers: { Authorization: "Bearer two" },
    };
    const next = await client.stream("/next");
    assert.equal(seen[1]?.authorization, "Bearer two");
    assert.deepEqual(names, ["before", "after"]);
    streams.get("/watch?watch=true")?.end("last\n");
    assert.equal(await text(before), "first\nlast\n");
    next.destroy();
  });

  it("has credentials read again after a 401, and after a failed handshake", async () => {
    credentials = { ...credentials, headers: { Authorization: "Bearer old" } };
    const old = credentials;
    await assert.rejects(client.stream("/refused"), { code: "K8S_UNAUTHORIZED" });
    assert.notEqual(credentials, old);
    const unknown = { verifyServer: true, headers: {}, serverName: "other" };
    credentials = unknown;
    await assert.rejects(client.stream("/watch"), { code: "K8S_UNAVAILABLE" });
    assert.notEqual(credentials, unknown);
  });

  it("ends a stream for the caller's reason, while it connects, before its answer and in it", async () => {
    const reason = new Error("no longer wanted");
    const [early, waiting, late] = [1, 2, 3].map(() => new AbortController());
    const connecting = client.stream("/early", { signal: early?.signal });
    early?.abort(reason);
    await assert.rejects(connecting, reason);

    server.prependOnceListener("stream", () => waiting?.abort(reason));
    await assert.rejects(client.stream("/waiting", { signal: waiting?.signal }), reason);

    const body = await client.stream("/late", { signal: late?.signal });
    late?.abort(reason);
    await assert.rejects(text(body), reason);
    await eventually(() => sessions.length === 0);
  });

  it("calls a server that does not answer unavailable", async () => {
    server.removeAllListeners("stream");
    await assert.rejects(client.stream("/watch", { timeoutMs: 50 }), { code: "K8S_UNAVAILABLE" });
    client = clientOf(1);
    await assert.rejects(client.stream("/watch"), /ECONNREFUSED/);
  });
});
