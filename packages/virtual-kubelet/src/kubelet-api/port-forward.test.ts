import assert from "node:assert/strict";
import { duplexPair, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { SpdyTestClient } from "../../test/spdy-test-client.ts";
import { ManualClock } from "@kip/testing";
import { servePortForward, type PortForward } from "./port-forward.ts";
import { Turns } from "./transport/turns.ts";
import { SpdyConnection } from "./spdy/connection.ts";
import { ampleMemory } from "../../test/ample-memory.ts";

function serve(
  forward: PortForward["forward"],
  options: Partial<PortForward> = {},
): { client: SpdyTestClient; served: Promise<void> } {
  const [serverSocket, clientSocket] = duplexPair();
  const remote = new SpdyConnection(serverSocket, Buffer.alloc(0), {
    turns: new Turns(),
    memory: ampleMemory(),
    streamsPerConnection: 100,
    streamHeaderBytes: 4096,
    streamBufferBytes: 1 << 20,
    idleTimeoutMs: 3_600_000,
    clock: systemClock,
    logger: silentLogger,
  });
  const served = servePortForward({
    remote,
    creationTimeoutMs: 30_000,
    forward,
    podName: "web_default",
    podUid: "u1",
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  return { client: new SpdyTestClient(clientSocket), served };
}

async function pair(
  client: SpdyTestClient,
  port: number,
  requestID?: string,
): Promise<{ error: number; data: number }> {
  const common = { port: String(port), ...(requestID !== undefined && { requestID }) };
  const error = await client.open({ ...common, streamType: "error" }, { fin: true });
  const data = await client.open({ ...common, streamType: "data" });
  return { error, data };
}

const echo = async (_port: number, connection: Duplex): Promise<void> => {
  await pipeline(
    connection,
    async function* (source: AsyncIterable<Buffer>) {
      yield* source;
    },
    connection,
  );
};

describe("servePortForward()", () => {
  it("S6: copies each pair of streams on its own, with ends of their own", async () => {
    const ports: number[] = [];
    const { client, served } = serve(async (port, connection) => {
      ports.push(port);
      for await (const chunk of connection) connection.write(`${port}:${String(chunk)}`);
    });
    const first = await pair(client, 80, "0");
    const second = await pair(client, 443, "1");
    client.data(second.data, "b", true);
    client.data(first.data, "a", true);
    assert.equal((await client.ended(first.data)).toString(), "80:a");
    assert.equal((await client.ended(second.data)).toString(), "443:b");
    assert.equal((await client.ended(first.error)).length, 0);
    assert.deepEqual(ports, [80, 443]);
    client.socket.end();
    await served;
  });

  it("S7: pairs streams of clients without request ids by their numbers", async () => {
    const { client, served } = serve(echo);
    const { data } = await pair(client, 80);
    client.data(data, "x", true);
    assert.equal((await client.ended(data)).toString(), "x");
    client.socket.end();
    await served;
  });

  it("sends the provider's failure on the error stream", async () => {
    const { client, served } = serve(async () => {
      throw new Error("connection refused");
    });
    const { error, data } = await pair(client, 80, "0");
    assert.equal(
      (await client.ended(error)).toString(),
      "error forwarding port 80 to pod web_default, uid u1: connection refused",
    );
    await client.ended(data);
    client.socket.end();
    await served;
  });

  it("S5: rejects streams without a port, without a type, of another port and second ones", async () => {
    const { client, served } = serve(echo);
    const bad = [
      await client.open({ streamType: "data", requestID: "0" }),
      await client.open({ streamType: "data", port: "0", requestID: "0" }),
      await client.open({ streamType: "data", port: "65536", requestID: "0" }),
      await client.open({ streamType: "data", port: "-1", requestID: "0" }),
      await client.open({ streamType: "data", port: "http", requestID: "0" }),
      await client.open({ port: "80", requestID: "0" }),
      await client.open({ streamType: "stdin", port: "80", requestID: "0" }),
    ];
    await client.open({ streamType: "error", port: "80", requestID: "0" });
    bad.push(await client.open({ streamType: "error", port: "80", requestID: "0" }));
    bad.push(await client.open({ streamType: "data", port: "81", requestID: "0" }));
    for (const id of bad) await client.frame("rstStream", id);
    client.socket.end();
    await served;
  });

  it("gives up a pair whose second stream does not come, and says so", async () => {
    const { client, served } = serve(echo, { creationTimeoutMs: 1 });
    const error = await client.open({ streamType: "error", port: "80", requestID: "0" });
    const text = (await client.ended(error)).toString();
    assert.equal(text, "error forwarding port 80: timed out waiting for the data stream");
    const lonely = await client.open({ streamType: "data", port: "80", requestID: "1" });
    await client.frame("rstStream", lonely);
    client.socket.end();
    await served;
  });

  it("forgets a pair whose only stream the client resets", async () => {
    const clock = new ManualClock();
    const { client, served } = serve(echo, { clock });
    for (let index = 0; index < 10; index++) {
      const options = { streamType: "error", port: "80", requestID: String(index) };
      client.send({ type: "rstStream", streamId: await client.open(options), status: 5 });
    }
    const last = await pair(client, 80, "last"); // the earlier streams are done when this one is answered
    client.data(last.data, "x", true);
    assert.equal((await client.ended(last.data)).toString(), "x");
    assert.equal(clock.sleepers, 0);
    client.socket.end();
    await served;
  });

  it("aborts a connection whose stream the client resets, and all when it leaves", async () => {
    const signals: AbortSignal[] = [];
    const started = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { client, served } = serve(async (_port, _connection, signal) => {
      started[signals.push(signal) - 1]?.resolve();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    });
    const first = await pair(client, 80, "0");
    await started[0]?.promise;
    await pair(client, 80, "1");
    await started[1]?.promise;
    client.send({ type: "rstStream", streamId: first.data, status: 5 });
    await client.ended(first.error);
    assert.deepEqual([signals[0]?.aborted, signals[1]?.aborted], [true, false]);
    client.socket.destroy();
    await served;
    assert.equal(signals[1]?.aborted, true);
  });
});
