// The kubelet API over WebSocket, as a kube-apiserver of 1.36 and browsers speak it.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import net, { type AddressInfo } from "node:net";
import tls from "node:tls";
import { after, before, describe, it } from "node:test";
import { webSocketFrame } from "./hostile-target.ts";
import { KubeletApiFixture } from "./kubelet-api-fixture.ts";
import { connectTunnel, WebSocketTestClient } from "./websocket-test-client.ts";
import { noLingerClock } from "./no-linger-clock.ts";

const success = { metadata: {}, status: "Success" };
const tenMegabytes = randomBytes(10_000_000);

describe("kubelet API over WebSocket", { timeout: 120_000 }, () => {
  let api: KubeletApiFixture;

  before(async () => {
    api = await KubeletApiFixture.start({ streamIdleTimeoutMs: 60_000 });
  });

  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  it("exec: announces itself, sends both outputs, then the exit code, then closes", async () => {
    const client = await exec("v5.channel.k8s.io", "output=1&error=1", "echo out; echo err >&2");
    const ended = await client.closed;
    assert.deepEqual(client.messages[0], { channel: 1, data: Buffer.alloc(0) });
    assert.equal(client.received(1).toString(), "out\n");
    assert.equal(client.received(2).toString(), "err\n");
    assert.deepEqual(JSON.parse(client.received(3).toString()), success);
    assert.equal(client.messages.at(-1)?.channel, 3);
    assert.equal(ended.code, 1000);
    const failed = await exec("v4.channel.k8s.io", "output=1", "exit 7");
    await failed.closed;
    assert.match(failed.received(3).toString(), /"reason":"ExitCode","message":"7"/);
  });

  it("exec: v5 ends stdin alone; 10 MB go in and their digest comes back", async () => {
    const client = await exec("v5.channel.k8s.io", "input=1&output=1", "sha256sum");
    for (let offset = 0; offset < tenMegabytes.length; offset += 100_000)
      client.send(0, tenMegabytes.subarray(offset, offset + 100_000));
    client.socket.send(Buffer.of(255, 0));
    client.send(0, "after the end: dropped");
    await client.closed;
    const digest = createHash("sha256").update(tenMegabytes).digest("hex");
    assert.equal(client.received(1).toString().split(" ")[0], digest);
    assert.deepEqual(JSON.parse(client.received(3).toString()), success);
  });

  it("exec: every version a client can ask for, the status in its form", async () => {
    for (const protocol of ["v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io", ""]) {
      const good = await exec(protocol, "output=1", "echo ok");
      await good.closed;
      assert.deepEqual([good.received(1).toString(), good.received(3).toString()], ["ok\n", ""]);
      const bad = await exec(protocol, "output=1", "exit 9");
      await bad.closed;
      assert.match(bad.received(3).toString(), /^command terminated .* exit status 9$/);
    }
    for (const protocol of ["v4.base64.channel.k8s.io", "base64.channel.k8s.io"]) {
      const client = await exec(protocol, "input=1&output=1", "head -c 5");
      client.send(0, "hello");
      await client.closed;
      assert.equal(client.received(1).toString(), "hello");
      assert.ok(client.onlyTexts);
    }
  });

  it("exec: takes the first protocol it knows and refuses when there is none", async () => {
    const path = "/exec/ns/p/c?command=true&output=1";
    const list = ["v9.channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io"];
    const client = await connect(path, list);
    assert.equal(client.socket.protocol, "v4.channel.k8s.io");
    await client.closed;
    await assert.rejects(connect(path, ["v9.channel.k8s.io"]), /^Error: 400 .*client supports/);
    await assert.rejects(connect("/healthz", ["v5.channel.k8s.io"]), /^Error: 400/);
    await assert.rejects(
      WebSocketTestClient.connect(api.port, path, ["v5.channel.k8s.io"], api.anonymous),
      /^Error: 401/,
    );
  });

  it("exec: a terminal with its sizes, and without stderr although it is asked for", async () => {
    const path = "/exec/ns/p/c?command=sh&input=1&output=1&error=1&tty=1";
    const client = await connect(path, ["v5.channel.k8s.io"]);
    client.send(4, '{"Width":100,"Height":40}');
    await client.until(() => client.received(1).includes("size 100x40"));
    client.send(4, '{"Width":120,"Height":40}');
    await client.until(() => client.received(1).includes("size 120x40"));
    client.send(0, "exit\r");
    await client.closed;
    assert.match(client.received(3).toString(), /"ExitCode","message":"5"/);
  });

  it("A3, A4, S1: exec and attach go on until the client closes or vanishes, then abort once", async () => {
    for (const leave of ["close", "terminate"] as const) {
      for (const path of [
        "/exec/ns/p/c?command=sh&command=-c&command=echo+attached;+exec+sleep+1000&output=1",
        "/attach/ns/p/c?input=1&output=1",
      ]) {
        const client = await connect(path, ["v5.channel.k8s.io"]);
        await client.until(() => client.received(1).includes("attached"));
        const left = api.provider.nextAbort.promise;
        const before = api.provider.aborted.length;
        client.socket.ping();
        await once(client.socket, "pong");
        assert.equal(api.provider.aborted.length, before);
        client.socket[leave]();
        await left;
        await client.closed;
        assert.deepEqual(api.provider.aborted.slice(before), [path.split("/")[1]]);
      }
    }
  });

  it("exec: a reader that is slow holds the program up, and loses nothing at its end", async () => {
    await using hasty = await KubeletApiFixture.start({ clock: noLingerClock });
    const path = "/exec/ns/p/c?command=head&command=-c&command=30000000&command=/dev/zero&output=1";
    const protocols = ["v5.channel.k8s.io"];
    const client = await WebSocketTestClient.connect(hasty.port, path, protocols, hasty.client);
    const reading = (async () => {
      while (client.socket.readyState === client.socket.OPEN) {
        client.socket.pause();
        await new Promise((resolve) => setTimeout(resolve, 20)); // what makes it slow
        client.socket.resume();
        await new Promise(setImmediate);
      }
    })();
    await client.closed;
    await reading;
    assert.equal(client.received(1).length, 30_000_000);
    assert.deepEqual(JSON.parse(client.received(3).toString()), success);
  });

  it("exec: input that the program does not read holds the client up", async () => {
    const script = "echo $$; kill -STOP $$; wc -c";
    const client = await exec("v5.channel.k8s.io", "input=1&output=1", script);
    for (let count = 0; count < 200; count++) client.send(0, Buffer.alloc(100_000, 0x61));
    await client.until(() => client.received(1).includes("\n"));
    const pid = Number(client.received(1).toString());
    assert.ok(client.socket.bufferedAmount > 0);
    client.socket.send(Buffer.of(255, 0));
    // The kernel reports a stopped process to its parent only.
    while (!/ T /.test(await readFile(`/proc/${pid}/stat`, "utf8")))
      await new Promise((resolve) => setTimeout(resolve, 10));
    process.kill(pid, "SIGCONT");
    await client.closed;
    assert.equal(client.received(1).toString().split("\n")[1]?.trim(), "20000000");
  });

  it("answers pings while a command runs, and closes a client that is silent", async () => {
    await using idle = await KubeletApiFixture.start({ streamIdleTimeoutMs: 500 });
    const path = "/exec/ns/p/c?command=sleep&command=1000&output=1";
    const client = await WebSocketTestClient.connect(
      idle.port,
      path,
      ["v5.channel.k8s.io"],
      idle.client,
    );
    client.socket.ping("are you there");
    const [answer] = (await once(client.socket, "pong")) as [Buffer];
    assert.equal(answer.toString(), "are you there");
    assert.equal((await client.closed).code, 1006);
  });

  it("attach: echoes and ends with the input", async () => {
    const client = await connect("/attach/ns/p/c?input=1&output=1", ["v5.channel.k8s.io"]);
    await client.until(() => client.received(1).includes("attached"));
    client.send(0, "hello");
    client.socket.send(Buffer.of(255, 0));
    await client.closed;
    assert.equal(client.received(1).toString(), "attached\nhello");
    assert.deepEqual(JSON.parse(client.received(3).toString()), success);
  });

  it("S8: port-forward: ports by query, each with two channels that begin with the port", async () => {
    await using echo = await echoServer();
    const path = `/portForward/ns/p?port=${echo.port},${echo.port}&port=1`;
    const client = await connect(path, ["v4.channel.k8s.io"]);
    client.send(0, "first");
    client.send(2, "second");
    await client.until(() => client.received(0).length === 7 && client.received(2).length === 8);
    assert.equal(client.received(0).subarray(2).toString(), "first");
    assert.equal(client.received(2).subarray(2).toString(), "second");
    assert.equal(client.received(1).readUInt16LE(), echo.port);
    await client.until(() => client.received(5).length > 2);
    assert.equal(client.received(5).readUInt16LE(), 1);
    assert.match(client.received(5).subarray(2).toString(), /error forwarding port 1 to pod p_ns/);
    client.socket.close();
    await client.closed;
  });

  it("port-forward: closes when all its connections have ended, base64 too", async () => {
    await using echo = await echoServer((socket) => socket.end("bye"));
    for (const protocol of ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""]) {
      const client = await connect(`/portForward/ns/p?port=${echo.port}`, [protocol]);
      assert.equal((await client.closed).code, 1000);
      assert.equal(client.received(0).subarray(2).toString(), "bye");
    }
    await assert.rejects(
      connect("/portForward/ns/p", ["v4.channel.k8s.io"]),
      /^Error: 400 query parameter "port" is required/,
    );
  });

  it("port-forward: closes when the pod has reset all its connections", async () => {
    await using resetting = await echoServer((socket) => {
      socket.once("data", () => socket.resetAndDestroy());
    });
    const client = await connect(`/portForward/ns/p?port=${resetting.port}`, ["v4.channel.k8s.io"]);
    client.send(0, "hello");
    assert.equal((await client.closed).code, 1000);
  });

  it("CVE-2020-8551: counts a message also if bytes have come before the answer to the upgrade", async () => {
    const asked = Promise.withResolvers<net.Socket>();
    const allowed = Promise.withResolvers<void>();
    await using small = await KubeletApiFixture.start({
      limits: { allBufferBytes: 0 },
      authenticate: async (request) => {
        asked.resolve(request.socket);
        await allowed.promise;
        return { name: "user", groups: [] };
      },
    });
    const socket = tls.connect({ host: "127.0.0.1", port: small.port, ...small.client });
    socket.on("error", () => {});
    const key = randomBytes(16).toString("base64");
    const headers = [
      "Host: x",
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      `Sec-WebSocket-Key: ${key}`,
    ];
    const path = "/exec/ns/p/c?command=sleep&command=1000&input=1&output=1";
    socket.write(`GET ${path} HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n`);
    const served = await asked.promise;
    // Its payload looks like the head of a message of 2 GiB, which would be the library's to refuse.
    const message = webSocketFrame(0x82, Buffer.from("00ff000000007fffffff00000000", "hex"));
    const headBytes = 6;
    socket.write(message.subarray(0, headBytes));
    while (served.readableLength < headBytes) await new Promise(setImmediate);
    allowed.resolve();
    await once(socket, "readable");
    socket.write(message.subarray(headBytes));
    socket.write(webSocketFrame(0x02, Buffer.alloc(40_000)));
    socket.write(webSocketFrame(0x80, Buffer.alloc(40_000)));
    socket.write(webSocketFrame(0x89, Buffer.from("all taken")));
    let answer = Buffer.alloc(0);
    for await (const piece of socket.iterator({ destroyOnReturn: false })) {
      answer = Buffer.concat([answer, piece as Buffer]);
      if (answer.includes("all taken") || answer.includes(Buffer.of(0x03, 0xf5))) break;
    }
    assert.equal(answer.includes("no room for so long a message now"), true);
    socket.destroy();
  });

  it("port-forward: SPDY tunnelled in a WebSocket", async () => {
    await using echo = await echoServer();
    const client = await connectTunnel(api.port, "/portForward/ns/p", api.client);
    const labels = { port: String(echo.port), requestID: "0" };
    await client.open({ streamType: "error", ...labels });
    const data = await client.open({ streamType: "data", ...labels });
    for (let offset = 0; offset < tenMegabytes.length; offset += 1_000_000)
      client.data(data, tenMegabytes.subarray(offset, offset + 1_000_000));
    client.data(data, "", true);
    assert.ok((await client.ended(data)).equals(tenMegabytes));
    client.socket.destroy();
  });

  it("closes a connection whose messages are malformed, with the reason", async () => {
    const path = "/exec/ns/p/c?command=cat&input=1&output=1";
    const base64 = await connect(path, ["v4.base64.channel.k8s.io"]);
    base64.socket.send("0not base64!");
    assert.equal((await base64.closed).code, 1007);
    const end = await connect(path, ["v5.channel.k8s.io"]);
    end.socket.send(Buffer.of(255));
    assert.equal((await end.closed).code, 1002);
    const long = await connect(path, ["v5.channel.k8s.io"]);
    long.socket.send(Buffer.alloc(4 * 1024 * 1024 + 1));
    assert.equal((await long.closed).code, 1009);
    const unknown = await connect(path, ["v5.channel.k8s.io"]);
    unknown.send(1, "to an output");
    unknown.send(77, "to no one");
    unknown.send(0, "to cat");
    unknown.socket.send(Buffer.of(255, 77));
    unknown.socket.send(Buffer.of(255, 0));
    await unknown.closed;
    assert.equal(unknown.received(1).toString(), "to cat");
  });

  async function connect(path: string, protocols: readonly string[]): Promise<WebSocketTestClient> {
    const named = protocols.filter((name) => name !== "");
    return await WebSocketTestClient.connect(api.port, path, named, api.client);
  }

  async function exec(
    protocol: string,
    streams: string,
    script: string,
  ): Promise<WebSocketTestClient> {
    const command = `command=sh&command=-c&command=${encodeURIComponent(script)}`;
    return await connect(`/exec/ns/p/c?${command}&${streams}`, [protocol]);
  }
});

async function echoServer(
  serve: (socket: net.Socket) => void = (socket) => socket.pipe(socket),
): Promise<AsyncDisposable & { readonly port: number }> {
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    serve(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      server.close();
    },
  };
}
