import assert from "node:assert/strict";
import { once } from "node:events";
import http2, { type ClientHttp2Session } from "node:http2";
import net from "node:net";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import { keepAlive } from "./keep-alive.ts";

/** A server in its own thread, which responds while this thread is blocked. */
const answering = `
  const server = require("node:http2").createServer();
  server.listen(0, "127.0.0.1", () => {
    require("node:worker_threads").parentPort.postMessage(server.address().port);
  });
`;

async function connect(port: number): Promise<ClientHttp2Session> {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  await once(session, "connect");
  return session;
}

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

async function answers(session: ClientHttp2Session): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  session.ping((error) => (error ? reject(error) : resolve()));
  await promise;
}

/** Blocks for many intervals whenever the ping timer is due, so that the timer always runs before input is read. */
async function standStillOften(times: number, intervalMs: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    standStill(10 * intervalMs);
    const { promise, resolve } = Promise.withResolvers<void>();
    setTimeout(resolve, intervalMs);
    await promise;
  }
}

describe("keepAlive()", () => {
  it("keeps connections whose answers came while the process stood still", async () => {
    const worker = new Worker(answering, { eval: true });
    const [port] = (await once(worker, "message")) as [number];
    const session = await connect(port);
    await answers(session);
    keepAlive(session, 20);
    try {
      await standStillOften(5, 20);
      assert.equal(session.destroyed, false);
      await answers(session);
    } finally {
      session.destroy();
      await worker.terminate();
    }
  });

  it("ends the connection to a machine that has vanished", { timeout: 10_000 }, async () => {
    const silent = net.createServer((socket) => void socket.on("error", () => {}));
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const address = silent.address();
    assert.ok(address !== null && typeof address === "object");
    const session = await connect(address.port);
    const failed = once(session, "error").catch((error: unknown) => [error]);
    keepAlive(session, 20);
    const [error] = (await failed) as [Error];
    assert.equal(error.message, "no answer to pings for 40 ms");
    silent.close();
  });
});
