import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { AgentError } from "@kip/agent-api";
import { portOf, runCommand, silentLogger } from "@kip/base";
import { eventually } from "@kip/testing";
import { dialCommand, servePortForward } from "./port-forward.ts";

describe("dialCommand()", () => {
  it("port-forward SSRF: dials a port of the pod's own network namespace, and no address that anybody names", () => {
    const words = dialCommand("/run/netns/pod", 8080);
    assert.deepEqual(words.slice(0, 2), ["/usr/bin/nsenter", "--net=/run/netns/pod"]);
    assert.equal(words.at(-1), "8080");
  });

  for (const host of ["127.0.0.1", "::1"])
    it(`reaches a program that listens on ${host} alone, and passes on the end of each direction`, async (t) => {
      if (process.getuid?.() !== 0) return t.skip("needs root");
      const server = net.createServer({ allowHalfOpen: true }, (socket) => {
        void text(socket).then((got) => socket.end(`got ${got}`));
      });
      server.listen(0, host);
      await once(server, "listening");
      const { port } = server.address() as net.AddressInfo; // of a TCP server
      const [program = "", ...words] = dialCommand("/proc/self/ns/net", port);
      const { stdout } = await runCommand(program, words, { input: "hello", timeoutMs: 30_000 });
      server.close();
      assert.equal(stdout, "got hello");
    });

  it("passes on that a server has closed or reset, while the client still has more to send", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const received: Promise<string>[] = [];
    const server = net.createServer({ allowHalfOpen: true }, (socket) => {
      if (received.length > 0) socket.write("bye", () => socket.resetAndDestroy());
      else received.push(text(socket.end("bye")));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo; // of a TCP server
    const [program = "", ...words] = dialCommand("/proc/self/ns/net", port);
    for (const how of ["closed", "reset"]) {
      const child = spawn(program, words, { stdio: ["pipe", "pipe", "ignore"], timeout: 20_000 });
      const exited = once(child, "exit");
      child.stdin.on("error", () => {}); // after a reset
      assert.equal(await text(child.stdout), "bye");
      child.stdin.end("more");
      assert.equal((await exited)[1], null, `the end came only with the program's: ${how}`);
    }
    server.close();
    assert.equal(await received[0], "more");
  });

  it("says why nothing was reached", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const [program = "", ...words] = dialCommand("/proc/self/ns/net", 1);
    await assert.rejects(runCommand(program, words), /Connection refused/);
  });
});

describe("servePortForward()", () => {
  it("gives a server that has ended its answer all that its client sends", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const received: Promise<string>[] = [];
    const server = net.createServer({ allowHalfOpen: true }, (socket) => {
      received.push(text(socket.end("bye")));
    });
    const port = await listen(server);
    const agent = http2.createServer().on("stream", (stream) => {
      const networkNamespace = "/proc/self/ns/net";
      void servePortForward(stream, { port, networkNamespace, logger: silentLogger });
    });
    const client = http2.connect(`http://127.0.0.1:${await listen(agent)}`);
    for (let count = 1; count <= 10; count++) {
      const stream = client.request({ ":method": "POST" }, { endStream: false });
      assert.equal(await text(stream), "bye");
      stream.end("more");
      assert.equal(await received.at(-1), "more", `connection ${count}`);
    }
    client.close();
    agent.close();
    server.close();
  });

  it("leaves turns of the event loop to others while many connections begin", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const count = 20;
    const server = net.createServer((socket) => void socket.end("bye"));
    const port = await listen(server);
    let turns = 0;
    const countTurns = (): void => {
      turns += 1;
      if (turns < count && children() < count) setImmediate(countTurns);
    };
    const agent = http2.createServer().on("stream", (stream) => {
      const networkNamespace = "/proc/self/ns/net";
      void servePortForward(stream, { port, networkNamespace, logger: silentLogger });
      if (turns === 0) countTurns();
    });
    const client = http2.connect(`http://127.0.0.1:${await listen(agent)}`);
    const answers = Array.from({ length: count }, async () => {
      const stream = client.request({ ":method": "POST" }, { endStream: false });
      stream.end();
      return await text(stream);
    });
    assert.deepEqual(await Promise.all(answers), Array<string>(count).fill("bye"));
    assert.ok(turns > count / 2, `${turns} turns`);
    client.close();
    agent.close();
    server.close();
  });

  it("connects on a cell that lacks the locale of the agent, of which perl warns", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const LC_ALL = process.env["LC_ALL"];
    process.env["LC_ALL"] = "xx_XX.UTF-8";
    t.after(() => {
      if (LC_ALL === undefined) delete process.env["LC_ALL"];
      else process.env["LC_ALL"] = LC_ALL;
    });
    const server = net.createServer((socket) => void socket.end("bye"));
    const port = await listen(server);
    const agent = http2.createServer().on("stream", (stream) => {
      const networkNamespace = "/proc/self/ns/net";
      void servePortForward(stream, { port, networkNamespace, logger: silentLogger });
    });
    const client = http2.connect(`http://127.0.0.1:${await listen(agent)}`);
    const stream = client.request({ ":method": "POST" }, { endStream: false });
    stream.end();
    assert.equal(await text(stream), "bye");
    client.close();
    agent.close();
    server.close();
  });

  it("says why nothing was reached, before it answers", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const ended = Promise.withResolvers<unknown>();
    const agent = http2.createServer().on("stream", (stream) => {
      const options = { port: 1, networkNamespace: "/proc/self/ns/net", logger: silentLogger };
      servePortForward(stream, options).then(ended.resolve, (error: unknown) => {
        ended.resolve({ error, hasAnswered: stream.headersSent });
        stream.close();
      });
    });
    const client = http2.connect(`http://127.0.0.1:${await listen(agent)}`);
    const stream = client.request({ ":method": "POST" }, { endStream: false });
    stream.on("error", () => {});
    const message = "Cannot connect to port 1 of the pod: Connection refused";
    const error = new AgentError("AGENT_PORT_REFUSED", message);
    assert.deepEqual(await ended.promise, { error, hasAnswered: false });
    client.close();
    agent.close();
  });

  for (const networkNamespace of [undefined, "/proc/self/ns/net"])
    it(`gives up a port that does not answer, in ${networkNamespace ?? "the machine's network"}`, async (t) => {
      if (process.getuid?.() !== 0) return t.skip("needs root");
      const { port, end } = await fullServer();
      const idle = connecting();
      const failed: Promise<unknown>[] = [];
      const agent = http2.createServer().on("stream", (stream) => {
        const connectMs = failed.length === 0 ? 500 : 60_000;
        const options = { port, networkNamespace, logger: silentLogger, connectMs };
        const served = servePortForward(
          stream.on("error", () => {}),
          options,
        );
        failed.push(served.catch((error: unknown) => error).finally(() => stream.close()));
      });
      const client = http2.connect(`http://127.0.0.1:${await listen(agent)}`);
      const late = client.request({ ":method": "POST" }, { endStream: false });
      await once(
        late.on("error", () => {}),
        "close",
      );
      const message = `Cannot connect to port ${port} of the pod: no answer within 0.5 s`;
      assert.deepEqual(await failed[0], new AgentError("AGENT_PORT_REFUSED", message));
      const left = client.request({ ":method": "POST" }, { endStream: false });
      await eventually(() => connecting() > idle);
      left.on("error", () => {}).close(http2.constants.NGHTTP2_CANCEL);
      await failed[1];
      await eventually(() => connecting() === idle);
      client.close();
      agent.close();
      end();
    });

  it("ends when its client leaves, though the server neither reads nor sends", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const server = net.createServer({ pauseOnConnect: true });
    const port = await listen(server);
    const served = Promise.withResolvers<void>();
    const bytes = 32 * 1024 * 1024; // more than sockets and pipes take
    const maxSessionMemory = 1000;
    const agent = http2.createServer({ maxSessionMemory, settings: { initialWindowSize: bytes } });
    agent.on("session", (session) => session.setLocalWindowSize(bytes));
    agent.on("stream", (stream) => {
      stream.on("error", () => {});
      const networkNamespace = "/proc/self/ns/net";
      const options = { port, networkNamespace, logger: silentLogger };
      servePortForward(stream, options).then(served.resolve, served.reject);
    });
    const client = http2.connect(`http://127.0.0.1:${await listen(agent)}`, { maxSessionMemory });
    const stream = client.request({ ":method": "POST" }, { endStream: false });
    stream.on("error", () => {});
    await once(stream, "response");
    await new Promise((resolve) => stream.write(Buffer.alloc(bytes), resolve));
    stream.close(http2.constants.NGHTTP2_CANCEL);
    await served.promise;
    client.close();
    agent.close();
    server.close();
  });
});

/** Number of this process's connections that wait for an answer, and of programs that it has started. */
function connecting(): number {
  const isConnecting = (name: string): boolean => name === "ConnectWrap";
  return process.getActiveResourcesInfo().filter(isConnecting).length + children();
}

/** A server that accepts nothing, and whose queue of connections is full. So the kernel drops what asks for another one. */
async function fullServer(): Promise<{ readonly port: number; readonly end: () => void }> {
  const script = `
    socket(S, AF_INET, SOCK_STREAM, 0) && bind(S, pack_sockaddr_in(0, INADDR_LOOPBACK)) && listen(S, 0) or die;
    my ($port) = unpack_sockaddr_in(getsockname(S));
    socket(C, AF_INET, SOCK_STREAM, 0) && connect(C, getsockname(S)) or die;
    syswrite STDOUT, $port;
    exec 'sleep', '60'`;
  const program = spawn("/usr/bin/perl", ["-MSocket", "-e", `$^F = 255; ${script}`]);
  const [port] = (await once(program.stdout.setEncoding("utf8"), "data")) as [string];
  return { port: Number(port), end: () => void program.kill() };
}

/** Number of programs that this process has started and that still run. */
function children(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "ProcessWrap").length;
}

async function listen(server: net.Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return portOf(server);
}
