import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { after, before, beforeEach, describe, it } from "node:test";
import { inspect } from "node:util";
import { silentLogger, systemClock } from "@kip/base";
import { eventually } from "@kip/testing";
import { K8sError } from "../errors.ts";
import type { ApiClient } from "./api-client.ts";
import { createApiClient } from "./create-api-client.ts";
import { wrapRequests } from "./wrap-requests.ts";
import type { Credentials } from "../kubeconfig/kubeconfig.ts";

let server: http.Server;
let client: ApiClient;
let credentials: Credentials;
let answer: (request: http.IncomingMessage, response: http.ServerResponse) => void;
const sockets = new Set<Socket>();

before(async () => {
  server = http.createServer((request, response) => answer(request, response));
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

after(() => {
  client.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  const { port } = server.address() as AddressInfo; // a TCP server that listens
  credentials = { verifyServer: true, headers: {} };
  client = createApiClient(
    {
      server: `http://127.0.0.1:${port}`,
      namespace: "default",
      source: "test",
      credentials: async () => credentials,
    },
    { userAgent: "test/1", logger: silentLogger, clock: systemClock, maxConnections: 2 },
  );
  sockets.clear();
});

describe("createApiClient()", () => {
  it("puts an answer together, however it is cut, and uses connections again", async () => {
    const items = Array.from({ length: 500 }, (_, index) => ({ text: `${index} ☃` }));
    const body = Buffer.from(JSON.stringify({ items }));
    answer = (_request, response) => {
      for (let at = 0; at < body.length; at += 1001) response.write(body.subarray(at, at + 1001));
      response.end();
    };
    const answers = await Promise.all(Array.from({ length: 20 }, () => client.get("/pods")));
    for (const each of answers) assert.deepEqual(each, { items });
    assert.ok(sockets.size <= 2);
  });

  it("says how long requests wait for their turn, also where it is wrapped", async () => {
    const held: http.ServerResponse[] = [];
    answer = (_request, response) => void held.push(response);
    const wrapped = wrapRequests(client, async (_verb, send) => await send());
    const all = Promise.all(Array.from({ length: 3 }, () => wrapped.get("/pods")));
    while (held.length < 2) await new Promise(setImmediate);
    assert.ok((wrapped.longestWaitMs ?? 0) > 0);
    answer = (_request, response) => void response.end("{}");
    for (const response of held) response.end("{}");
    await all;
    assert.equal(wrapped.longestWaitMs, 0);
  });

  it("ends a request for the caller's reason, before it, in it and in its answer", async () => {
    const reason = new Error("no longer wanted");
    await assert.rejects(client.get("/", { signal: AbortSignal.abort(reason) }), reason);

    const inIt = new AbortController();
    answer = () => inIt.abort(reason);
    await assert.rejects(client.get("/", { signal: inIt.signal }), reason);

    const inAnswer = new AbortController();
    answer = (_request, response) => {
      response.write('{"half":');
      setImmediate(() => inAnswer.abort(reason));
    };
    await assert.rejects(client.get("/", { signal: inAnswer.signal }), reason);
  });

  it("fails when the server switches protocols, unasked", async () => {
    answer = (request) => {
      request.socket.end(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
      );
    };
    const settled = client.get("/").then(
      () => "answered",
      (error: unknown) => (K8sError.is(error, "K8S_UNAVAILABLE") ? "unavailable" : error),
    );
    await once([...sockets][0] ?? (await once(server, "connection"))[0], "close");
    // The client sees the end of its connection at most a few turns after the server does.
    const late = systemClock.sleep(2000).then(() => "nothing");
    assert.equal(await Promise.race([settled, late]), "unavailable");
  });

  it("calls an answer that is cut, or late, unavailable", async () => {
    answer = (_request, response) => {
      response.writeHead(200, { "Content-Length": "100" });
      response.write("half", () => response.destroy());
    };
    await assert.rejects(client.get("/"), (error) => K8sError.is(error, "K8S_UNAVAILABLE"));
    answer = () => {};
    await assert.rejects(client.get("/", { timeoutMs: 20 }), (error) =>
      K8sError.is(error, "K8S_UNAVAILABLE"),
    );
  });

  it("ends a stream request whose refusal does not end, as it ends other requests", async () => {
    answer = (_request, response) => {
      response.writeHead(503, { "Content-Type": "text/plain" });
      response.write("a part");
    };
    const isUnavailable = (error: unknown): boolean => K8sError.is(error, "K8S_UNAVAILABLE");
    const ended = client.stream("/watch", { timeoutMs: 50 });
    await assert.rejects(within(ended), isUnavailable);
    await assert.rejects(within(client.get("/", { timeoutMs: 50 })), isUnavailable);
  });

  it("reads a bounded part of a refusal that never stops sending", async () => {
    answer = (_request, response) => {
      response.writeHead(403, { "Content-Type": "text/plain" });
      const piece = Buffer.alloc(64 * 1024, "x");
      const more = (): void => {
        while (!response.destroyed && response.write(piece));
        if (!response.destroyed) response.once("drain", more);
      };
      more();
    };
    const isForbidden = (error: unknown): boolean => K8sError.is(error, "K8S_FORBIDDEN");
    await assert.rejects(within(client.stream("/watch")), isForbidden);
    await assert.rejects(within(client.get("/")), isForbidden);
    assert.equal((await client.request("GET", "/")).body.length, 1024 * 1024);
  });

  it("calls an answer that is not JSON unavailable, and a redirection failed", async () => {
    answer = (_request, response) => response.end("<html>back soon</html>");
    await assert.rejects(client.get("/"), (error) => K8sError.is(error, "K8S_UNAVAILABLE"));
    answer = (_request, response) => {
      response.writeHead(302, { Location: "/login" });
      response.end("<html>log in</html>");
    };
    await assert.rejects(client.get("/"), (error) => K8sError.is(error, "K8S_REQUEST_FAILED"));
  });

  it("quotes nothing of an answer that is not JSON, which may be a Secret", async () => {
    answer = (_request, response) => response.end('{"data":{"password":hidden}}');
    await assert.rejects(client.get("/"), (error) => {
      assert.doesNotMatch(inspect(error), /hidden/);
      return K8sError.is(error, "K8S_UNAVAILABLE");
    });
  });

  it("cuts a stream when its signal aborts, and ends the server's side too", async () => {
    const closed = Promise.withResolvers<void>();
    answer = (_request, response) => {
      response.write("line\n");
      response.on("close", () => closed.resolve());
    };
    const stop = new AbortController();
    const body = await client.stream("/watch", { signal: stop.signal });
    await once(body, "data");
    stop.abort(new Error("stopped"));
    await assert.rejects(once(body, "end"));
    await closed.promise;
  });

  it("sends what is urgent before what waits for a connection", async () => {
    const held: http.ServerResponse[] = [];
    const seen: string[] = [];
    const two = Promise.withResolvers<void>();
    answer = (request, response) => {
      seen.push(request.url ?? "");
      if (held.push(response) === 2) two.resolve();
      else if (held.length > 2) response.end("{}");
    };
    const busy = [client.get("/busy"), client.get("/busy")];
    await two.promise;
    const waiting = [
      client.get("/pod"),
      client.get("/pod"),
      client.get("/lease", { isUrgent: true }),
    ];
    held[0]?.end("{}");
    await Promise.all(waiting);
    held[1]?.end("{}");
    await Promise.all(busy);
    assert.deepEqual(seen, ["/busy", "/busy", "/lease", "/pod", "/pod"]);
  });

  it("lets what is under way end when credentials change, and uses its connections no more", async () => {
    const open: http.ServerResponse[] = [];
    answer = (request, response) => {
      response.writeHead(200);
      response.write("{");
      if (request.url === "/now") response.end("}");
      else open.push(response);
    };
    const watch = await client.stream("/watch");
    const slow = client.get("/slow");
    await client.get("/now");
    const before = new Set(sockets);
    credentials = { verifyServer: true, headers: { Authorization: "Bearer renewed" } };
    await client.get("/now");
    assert.equal([...sockets].filter((socket) => !before.has(socket)).length, 1);
    for (const response of open) response.end("}");
    assert.deepEqual(await slow, {});
    const chunks = await watch.toArray();
    assert.equal(Buffer.concat(chunks as Buffer[]).toString(), "{}");
    for (const socket of before) if (!socket.destroyed) await once(socket, "close");
  });

  it("has credentials read again after a 401 and after a failed TLS handshake", async () => {
    const { port } = server.address() as AddressInfo; // as above
    const refused: Credentials[] = [];
    const config = {
      namespace: "default",
      source: "test",
      credentials: async () => credentials,
      forget: (each: Credentials) => void refused.push(each),
    };
    const options = { userAgent: "test/1", logger: silentLogger, clock: systemClock };
    answer = (_request, response) => response.writeHead(401).end();
    const plain = createApiClient({ ...config, server: `http://127.0.0.1:${port}` }, options);
    await assert.rejects(plain.get("/"), { code: "K8S_UNAUTHORIZED" });
    const secure = createApiClient({ ...config, server: `https://127.0.0.1:${port}` }, options);
    await assert.rejects(secure.get("/"), { code: "K8S_UNAVAILABLE" });
    assert.deepEqual(refused, [credentials, credentials]);
    plain.close();
    secure.close();
  });

  it("gives a request up for its own time limit and signal while it waits for credentials", async () => {
    const never = createApiClient(
      {
        server: "http://127.0.0.1:1",
        namespace: "default",
        source: "test",
        credentials: async () => await new Promise<never>(() => {}),
      },
      { userAgent: "test/1", logger: silentLogger, clock: systemClock, maxConnections: 1 },
    );
    const late = { code: "K8S_UNAVAILABLE" };
    await assert.rejects(within(never.get("/", { timeoutMs: 20 })), late);
    await assert.rejects(within(never.stream("/", { timeoutMs: 20 })), late);
    const stop = new AbortController();
    const reason = new Error("stopped");
    const ended = never.get("/", { signal: stop.signal });
    stop.abort(reason);
    await assert.rejects(within(ended), reason);
    never.close();
  });

  it("gives a request up that waits to be sent, and no other, for `unsentSignal`", async () => {
    const answers: (() => void)[] = [];
    answer = (_request, response) => void answers.push(() => response.end("{}"));
    const stop = new AbortController();
    const reason = new Error("stopped");
    const { signal } = new AbortController();
    const options = { unsentSignal: stop.signal, signal };
    const sent = [1, 2].map(() => client.create("/cells", {}, options));
    await eventually(() => answers.length === 2);
    const waiting = client.create("/cells", {}, options);
    stop.abort(reason);
    await assert.rejects(within(waiting), reason);
    for (const each of answers) each();
    assert.deepEqual(await Promise.all(sent), [{}, {}]);
    assert.equal(answers.length, 2);
  });

  it("goes on with the certificate it had while a new one does not fit its key", async () => {
    let current: Credentials = { verifyServer: true, headers: {} };
    const secure = createApiClient(
      {
        server: "https://127.0.0.1:1",
        namespace: "default",
        source: "test",
        credentials: async () => current,
      },
      { userAgent: "test/1", logger: silentLogger, clock: systemClock },
    );
    await assert.rejects(secure.get("/"), /ECONNREFUSED/);
    current = { ...current, cert: Buffer.from("half"), key: Buffer.from("written") };
    await assert.rejects(secure.get("/"), /ECONNREFUSED/);
    secure.close();
  });
});

/** Fails a test whose promise does not settle, long before the test runner's own limit. */
async function within<T>(promise: Promise<T>): Promise<T> {
  return await Promise.race([
    promise,
    new Promise<never>((_resolve, reject) => {
      setTimeout(() => reject(new Error("it did not settle")), 5000).unref();
    }),
  ]);
}
