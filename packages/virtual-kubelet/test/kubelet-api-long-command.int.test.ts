// Commands of nearly a mebibyte, by SPDY and by WebSocket, and what those who may not exec can hold.
import assert from "node:assert/strict";
import { once } from "node:events";
import https from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { after, before, describe, it } from "node:test";
import tls from "node:tls";
import type { ProcessStreams } from "@kip/base";
import { KubeletApiFixture } from "./kubelet-api-fixture.ts";
import { SpdyTestClient } from "./spdy-test-client.ts";
import { WebSocketTestClient } from "./websocket-test-client.ts";

const host = "127.0.0.1";
/** Text whose percent encoding is three times as long: nine words with some 900 KiB in a request line. */
const command = [
  "sh",
  "-c",
  ...Array.from({ length: 7 }, (_, index) => "\n".repeat(43_000 + index)),
];
const query = new URLSearchParams([
  ["output", "1"],
  ...command.map((word) => ["command", word] as [string, string]),
]);
const longPath = `/exec/ns/p/c?${query.toString()}`;

describe("exec with a long command", { timeout: 60_000 }, () => {
  let api: KubeletApiFixture;
  const commands: (readonly string[])[] = [];

  before(async () => {
    api = await KubeletApiFixture.start({ limits: { longRequestBytes: 2_000_000 } });
    Object.assign(api.provider, {
      exec: async (_pod: unknown, _name: string, words: readonly string[], io: ProcessStreams) => {
        commands.push(words);
        if (words[0] === "wait") await once(io.stdin ?? process, "end");
        io.stdout?.end("done");
        return { exitCode: 0 };
      },
    });
    assert.ok(longPath.length > 900_000 && longPath.length < 1024 * 1024);
  });

  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  it("takes a command of 900 KiB by SPDY from a client with a certificate", async () => {
    const socket = await upgradeToSpdy(longPath);
    assert.ok(typeof socket !== "number");
    const client = new SpdyTestClient(socket);
    await client.open({ streamType: "error" });
    const output = await client.open({ streamType: "stdout" });
    await client.frame("data", output);
    client.socket.destroy();
    assert.deepEqual(commands.pop(), command);
  });

  it("takes a command of 900 KiB by WebSocket from a client with a certificate", async () => {
    const protocols = ["v5.channel.k8s.io"];
    const client = await WebSocketTestClient.connect(api.port, longPath, protocols, api.client);
    await client.closed;
    assert.equal(client.received(1).toString(), "done");
    assert.deepEqual(commands.pop(), command);
  });

  it("refuses a command above 1 MiB with 431", async () => {
    assert.equal(await upgradeToSpdy(`${longPath}&command=${"x".repeat(200_000)}`), 431);
  });

  it("takes no more than 32 KiB from a client without a certificate", async () => {
    assert.equal(await upgradeToSpdy(longPath, api.anonymous), 431);
  });

  it("refuses a long command while others hold too much, and takes it afterwards", async () => {
    const waiting = longPath.replace("command=sh", "command=wait&input=1");
    const first = await upgradeToSpdy(waiting);
    const second = await upgradeToSpdy(waiting);
    assert.ok(typeof first !== "number" && typeof second !== "number");
    assert.equal(await upgradeToSpdy(longPath), 429);
    assert.equal((await api.ask("/healthz")).status, 200);
    first.destroy();
    let third = await upgradeToSpdy(longPath);
    while (third === 429) third = await upgradeToSpdy(longPath); // until the server saw it leave
    assert.ok(typeof third !== "number");
    third.destroy();
    second.destroy();
  });

  it("holds nothing of a client that left while its permission was looked up", async () => {
    const sockets: Socket[] = [];
    await using limited = await KubeletApiFixture.start({
      limits: { longRequestBytes: 1_000_000 },
      authenticate: async ({ socket }) => {
        sockets.push(socket);
        return { name: "a", groups: [] };
      },
      authorize: async () => {
        if (sockets.length === 1) await once(sockets[0] ?? process, "close");
        return true;
      },
    });
    const leaving = tls.connect({ host, port: limited.port, ...limited.client });
    leaving.on("error", () => {});
    leaving.write(
      `POST ${longPath} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`,
    );
    while (sockets.length === 0) await new Promise(setImmediate);
    leaving.destroy();
    await once(leaving, "close");
    const next = await upgradeToSpdy(longPath, limited.client, limited.port);
    assert.notEqual(next, 429);
    assert.ok(typeof next !== "number");
    next.destroy();
  });

  it("closes the oldest of the connections that hold half a long head, and not one that was authorised", async () => {
    const limits = { unprovenLongConnections: 2 };
    await using limited = await KubeletApiFixture.start({ limits });
    const connect = async (): Promise<tls.TLSSocket> => {
      const socket = tls.connect({ host, port: limited.port, ...limited.client });
      socket.on("error", () => {});
      await once(socket, "secureConnect");
      return socket;
    };
    const follower = await connect();
    follower.write("GET /containerLogs/ns/p/c?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(follower, "data");
    const oldest = await connect();
    const closed = once(oldest.resume(), "close");
    oldest.write(`GET /exec/ns/p/c?command=${"x".repeat(500_000)}`);
    const others = [await connect(), await connect()];
    await closed;
    assert.deepEqual(
      [follower, ...others].map((socket) => socket.destroyed),
      [false, false, false],
    );
    for (const socket of [follower, ...others]) socket.destroy();
  });

  async function upgradeToSpdy(
    path: string,
    pair = api.client,
    port = api.port,
  ): Promise<Duplex | number> {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "SPDY/3.1",
      "X-Stream-Protocol-Version": "v4.channel.k8s.io",
    };
    const options = { host, port, path, method: "POST", headers, agent: false as const };
    return await new Promise((resolve, reject) => {
      const request = https.request({ ...options, ...pair });
      request.once("upgrade", (_response, socket) => resolve(socket));
      request.once("response", (response) => {
        resolve(response.statusCode ?? 0);
        response.destroy();
      });
      request.once("error", reject);
      request.end();
    });
  }
});
