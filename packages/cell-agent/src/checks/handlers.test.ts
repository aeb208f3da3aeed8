import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import net, { type AddressInfo, type Server } from "node:net";
import { describe, it } from "node:test";
import { eventList } from "../../test/event-list.ts";
import { runCheck, runHook, type CheckTarget } from "./handlers.ts";

const { events } = eventList();
const never = new AbortController().signal;
const target: CheckTarget = {
  containerId: "1",
  address: "127.0.0.1",
  runtime: { exec: async () => ({ exitCode: 0 }) },
};

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port; // of a TCP server that is listening
}

/** A gRPC server that handles requests with exactly this content. */
async function grpcServer(answer: (request: Buffer, stream: http2.ServerHttp2Stream) => void) {
  const server = http2.createServer();
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream, headers) => {
    assert.equal(headers[":path"], "/grpc.health.v1.Health/Check");
    const parts: Buffer[] = [];
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("end", () => answer(Buffer.concat(parts), stream));
  });
  return {
    port: await listen(server),
    [Symbol.dispose]: () => {
      for (const session of sessions) session.destroy();
      server.close();
    },
  };
}

function respond(stream: http2.ServerHttp2Stream, message: readonly number[]): void {
  const type = { "content-type": "application/grpc" };
  stream.respond({ ":status": 200, ...type }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(Buffer.from([0, 0, 0, 0, message.length, ...message]));
}

describe("runCheck(), by gRPC", () => {
  const table: readonly (readonly [string, readonly number[], boolean, string])[] = [
    ["that serves", [8, 1], true, ""],
    ["that does not serve", [8, 2], false, 'service unhealthy (responded with "NOT_SERVING")'],
    ["that knows nothing", [], false, 'service unhealthy (responded with "UNKNOWN")'],
  ];
  for (const [what, message, isSuccess, output] of table)
    it(`of a server ${what}`, async () => {
      using server = await grpcServer((_request, stream) => respond(stream, message));
      const result = await runCheck({ grpc: { port: server.port } }, target, never);
      assert.deepEqual(result, { isSuccess, output });
    });

  it("names the service", async () => {
    const name = "s".repeat(200);
    const requests: Buffer[] = [];
    using server = await grpcServer((request, stream) => {
      requests.push(request);
      respond(stream, [8, 1]);
    });
    await runCheck({ grpc: { port: server.port, service: name } }, target, never);
    await runCheck({ grpc: { port: server.port } }, target, never);
    const whole = Buffer.concat([Buffer.from([0, 0, 0, 0, 203, 10, 200, 1]), Buffer.from(name)]);
    assert.deepEqual(requests, [whole, Buffer.alloc(5)]);
  });

  it("of a server that has no such service, or is none", async () => {
    using server = await grpcServer((_request, stream) =>
      stream.respond({ ":status": 200, "grpc-status": "12" }, { endStream: true }),
    );
    const result = await runCheck({ grpc: { port: server.port } }, target, never);
    assert.equal(result.isSuccess, false);
    assert.match(result.output, /does not implement the grpc health protocol/);
    const why = { "grpc-status": "5", "grpc-message": "no %C3%A9" };
    using unknown = await grpcServer((_request, stream) =>
      stream.respond({ ":status": 200, ...why }, { endStream: true }),
    );
    assert.equal(
      (await runCheck({ grpc: { port: unknown.port } }, target, never)).output,
      "error: health rpc probe failed: rpc error: code = NotFound desc = no é",
    );
    const plain = http.createServer((_request, response) => response.end());
    const port = await listen(plain);
    const other = await runCheck({ grpc: { port } }, target, never);
    assert.equal(other.isSuccess, false);
    plain.close();
    const closed = await runCheck({ grpc: { port } }, target, never, { limitMs: 1000 });
    const where = `"127.0.0.1:${port}"`;
    const text = `timeout: failed to connect service ${where} within 1s: context deadline exceeded`;
    assert.deepEqual(closed, { isSuccess: false, output: text });
  });

  it("ends with its time, and takes no answer without end", async () => {
    using silent = await grpcServer(() => {});
    const limit = AbortSignal.timeout(100);
    const late = await runCheck({ grpc: { port: silent.port } }, target, limit, { limitMs: 100 });
    const output = "timeout: health rpc did not complete within 100ms";
    assert.deepEqual(late, { isSuccess: false, output });
    using endless = await grpcServer((_request, stream) => {
      stream.respond({ ":status": 200 });
      stream.on("error", () => {});
      const more = (): void => void (stream.destroyed || stream.write(Buffer.alloc(65_536), more));
      more();
    });
    const long = await runCheck({ grpc: { port: endless.port } }, target, never);
    assert.match(long.output, /too long/);
  });
});

describe("runCheck(), of an answer 101", () => {
  it(
    "fails a probe at once, as an HTTP client that asked for no upgrade sees it",
    { timeout: 5000 },
    async () => {
      const server = http.createServer();
      server.on("connection", (socket) =>
        socket.write(
          "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        ),
      );
      const httpGet = { path: "/", port: await listen(server) };
      const result = await runCheck({ httpGet }, target, AbortSignal.timeout(2000));
      server.close();
      assert.deepEqual(result, {
        isSuccess: false,
        output: "HTTP probe failed with statuscode: 101",
        status: 101,
      });
    },
  );
});

describe("runCheck(), by HTTP", () => {
  it("sends each header as often as it is there, and an own value in place of a default", async () => {
    const received: string[][] = [];
    const server = http.createServer((request, response) => {
      received.push(request.rawHeaders);
      response.end();
    });
    const own = ["X-Word: a", "x-word: b", "User-Agent: me", "Accept: ", "Host: web.test"];
    const headers = own.map((line) => {
      const [name = "", value = ""] = line.split(": ");
      return { name, value };
    });
    const httpGet = { path: "/", port: await listen(server), headers };
    assert.equal((await runCheck({ httpGet }, target, never)).isSuccess, true);
    server.close();
    const [raw = []] = received;
    const lines = raw.flatMap((name, index) =>
      index % 2 === 0 ? [`${name.toLowerCase()}: ${raw[index + 1] ?? ""}`] : [],
    );
    assert.deepEqual(lines.sort(), [
      "connection: close",
      "host: web.test",
      "user-agent: me",
      "x-word: a",
      "x-word: b",
    ]);
  });
});

describe("runCheck(), of redirects", () => {
  it("follows those to the same host, and warns of others", async () => {
    const asked: string[] = [];
    const server = http.createServer((request, response) => {
      asked.push(request.url ?? "");
      const [, count] = /^\/again(\d+)$/.exec(request.url ?? "") ?? [];
      const to: Readonly<Record<string, string>> = {
        "/local": "/bad",
        "/good": `http://127.0.0.1:${port}/fine`,
        "/away": "http://other.example/",
        "/mail": "mailto:you",
        "/wrong": "http://[",
      };
      const location = count === undefined ? to[request.url ?? ""] : `/again${Number(count) - 1}`;
      if (location !== undefined && location !== "/again-1")
        response.writeHead(302, { location }).end("moved");
      else response.writeHead(request.url === "/bad" ? 500 : 200).end();
    });
    const port = await listen(server);
    try {
      const probe = async (path: string) =>
        await runCheck({ httpGet: { path, port } }, target, never);
      const bad = {
        isSuccess: false,
        output: "HTTP probe failed with statuscode: 500",
        status: 500,
      };
      assert.deepEqual(await probe("/local"), bad);
      assert.equal((await probe("/good")).isSuccess, true);
      assert.deepEqual(asked, ["/local", "/bad", "/good", "/fine"]);
      const output = "Probe terminated redirects, Response body: moved";
      const warned = { isSuccess: true, output, status: 302, isWarning: true };
      assert.deepEqual(await probe("/away"), warned);
      assert.deepEqual(await probe("/mail"), warned);
      assert.equal((await probe("/again9")).isSuccess, true);
      const output11 = 'Get "/again0": stopped after 10 redirects';
      assert.deepEqual(await probe("/again10"), { isSuccess: false, output: output11 });
      assert.match(
        (await probe("/wrong")).output,
        /^failed to parse Location header "http:\/\/\["/,
      );
    } finally {
      server.close();
    }
  });
});

describe("runCheck(), by HTTP as Go does it", () => {
  it("asks for the very path, with its dots, and encodes what a request may not have", async () => {
    const asked: (string | undefined)[] = [];
    const server = http.createServer((request, response) => {
      asked.push(request.url);
      response.end();
    });
    const port = await listen(server);
    for (const path of ["a/../b/./c", "/é |?q=é#end", "/%2e%41?", "/100%?x"])
      assert.equal((await runCheck({ httpGet: { path, port } }, target, never)).isSuccess, true);
    server.close();
    assert.deepEqual(asked, ["/a/../b/./c", "/%C3%A9%20%7C?q=%C3%A9", "/%2e%41?", "/100%25%3Fx"]);
  });

  it("takes lines that end without a carriage return", { timeout: 5000 }, async () => {
    const server = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"));
    });
    const httpGet = { path: "/", port: await listen(server) };
    const result = await runCheck({ httpGet }, target, never);
    server.close();
    assert.deepEqual(result, { isSuccess: true, output: "", status: 200 });
  });

  it("takes large headers, and the first 10 KiB of a body without end", async () => {
    const server = http.createServer((_request, response) => {
      response.setHeader("x-large", "x".repeat(100_000));
      const more = (): void => void (response.destroyed || response.write("x".repeat(4096), more));
      more();
    });
    const httpGet = { path: "/", port: await listen(server) };
    const result = await runCheck({ httpGet }, target, never);
    server.close();
    assert.deepEqual(result, { isSuccess: true, output: "", status: 200 });
  });

  it("has no result when the body does not come", { timeout: 60_000 }, async () => {
    const server = http.createServer((request, response) => {
      response.write("x", () => void (request.url === "/cut" && response.destroy()));
    });
    const port = await listen(server);
    try {
      const signal = AbortSignal.timeout(3000);
      const late = await runCheck({ httpGet: { path: "/late", port } }, target, signal);
      const reason = "Client.Timeout or context cancellation while reading body";
      const output = `context deadline exceeded (${reason})`;
      assert.deepEqual(late, { isSuccess: false, output, status: 200, errorState: "failure" });
      const cut = { httpGet: { path: "/cut", port } };
      const { errorState, status } = await runCheck(cut, target, never);
      assert.deepEqual([errorState, status], ["failure", 200]);
      assert.equal((await runHook(cut, target, never, events)).isSuccess, true);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

describe("runHook(), of a hook by tcpSocket", () => {
  it("fails, as on a kubelet: hooks cannot do it", async () => {
    const result = await runHook({}, target, never, events);
    assert.deepEqual(result, {
      isSuccess: false,
      output: "invalid handler",
      errorState: "unknown",
    });
  });
});

describe("runHook(), by HTTPS", () => {
  const headers = [
    { name: "authorization", value: "Basic YTpi" },
    { name: "x-one", value: "1" },
  ];

  it("is repeated by HTTP where the server speaks that, without its password, and says so", async () => {
    const seen: http.IncomingHttpHeaders[] = [];
    const server = http.createServer((request, response) => {
      seen.push(request.headers);
      response.statusCode = 500;
      response.end();
    });
    const port = await listen(server);
    try {
      const told = eventList();
      const hook = { httpGet: { path: "/", port, scheme: "HTTPS", headers } } as const;
      assert.equal((await runHook(hook, target, never, told.events)).isSuccess, true);
      assert.equal(seen.length, 1);
      const [{ authorization, "x-one": one, "user-agent": agent } = {}] = seen;
      assert.deepEqual([authorization, one, agent], [undefined, "1", "kube-lifecycle/1.34"]);
      assert.deepEqual(
        told.list.map(({ type, reason, message }) => `${type} ${reason}: ${message}`),
        [
          `Warning LifecycleHTTPFallback: request to HTTPS lifecycle hook 127.0.0.1:${port} got HTTP response, retry with HTTP succeeded`,
        ],
      );
      assert.equal((await runCheck(hook, target, never)).isSuccess, false, "a probe is not");
      const plain = { httpGet: { path: "/", port, headers } };
      await runHook(plain, target, never, told.events);
      assert.equal(seen.at(-1)?.authorization, "Basic YTpi");
      assert.equal(told.list.length, 1);
    } finally {
      server.close();
    }
  });

  it("fails where the server speaks neither", async () => {
    const server = net.createServer((socket) =>
      socket.on("error", () => undefined).end("220 mail\n"),
    );
    const port = await listen(server);
    try {
      const told = eventList();
      const hook = { httpGet: { path: "/", port, scheme: "HTTPS" } } as const;
      const { isSuccess, output } = await runHook(hook, target, never, told.events);
      assert.equal(isSuccess, false);
      assert.match(output, /^Get "https:/);
      assert.deepEqual(told.list, []);
    } finally {
      server.close();
    }
  });
});

describe("runHook(), of an answer 500", () => {
  it("fails a probe, and no hook", async () => {
    const server = http.createServer((_request, response) => {
      response.statusCode = 500;
      response.end();
    });
    const httpGet = { path: "/", port: await listen(server) };
    assert.equal((await runCheck({ httpGet }, target, never)).isSuccess, false);
    assert.equal((await runHook({ httpGet }, target, never, events)).isSuccess, true);
    server.close();
    assert.equal((await runHook({ httpGet }, target, never, events)).isSuccess, false);
  });
});

describe("runHook(), of a hook that sleeps", () => {
  const month = 31 * 86_400;

  it("does not begin when the container has ended", { timeout: 20_000 }, async () => {
    const result = await runHook({ sleepSeconds: 3600 }, target, AbortSignal.abort(), events);
    assert.equal(result.isSuccess, true);
  });

  it(
    "sleeps until it is cut short, also longer than a timer can",
    { timeout: 20_000 },
    async () => {
      const ended = new AbortController();
      const hook = runHook({ sleepSeconds: month }, target, ended.signal, events);
      const first = await Promise.race([
        hook,
        new Promise((resolve) => setTimeout(resolve, 50, "asleep")),
      ]);
      assert.equal(first, "asleep");
      ended.abort();
      assert.equal((await hook).isSuccess, true);
    },
  );
});
