import assert from "node:assert/strict";
import { duplexPair, PassThrough } from "node:stream";
import { describe, it } from "node:test";
import {
  AsyncQueue,
  silentLogger,
  systemClock,
  type ProcessStreams,
  type TerminalSize,
} from "@kip/base";
import { SpdyTestClient } from "../../test/spdy-test-client.ts";
import type { ProcessExit } from "../pod-provider.ts";
import { serveRemoteCommand, spdyDialect, type RemoteCommand } from "./remote-command.ts";
import type { RemoteStream } from "./transport/remote-streams.ts";
import { Turns } from "./transport/turns.ts";
import { SpdyConnection } from "./spdy/connection.ts";
import { ampleMemory } from "../../test/ample-memory.ts";

interface Session {
  readonly client: SpdyTestClient;
  readonly served: Promise<void>;
  /** How many times the command's signal has aborted. */
  readonly aborts: () => number;
}

const none = { stdin: false, stdout: false, stderr: false, tty: false };

function serve(
  wanted: Partial<RemoteCommand["wanted"]>,
  run: (streams: ProcessStreams, signal: AbortSignal) => Promise<ProcessExit>,
  options: Partial<RemoteCommand> = {},
): Session {
  const [serverSocket, clientSocket] = duplexPair();
  let aborts = 0;
  const remote = new SpdyConnection(serverSocket, Buffer.alloc(0), {
    turns: new Turns(),
    memory: ampleMemory(),
    streamsPerConnection: 10,
    streamHeaderBytes: 4096,
    streamBufferBytes: 1 << 20,
    idleTimeoutMs: 3_600_000,
    clock: systemClock,
    logger: silentLogger,
  });
  const served = serveRemoteCommand({
    remote,
    dialect: spdyDialect("v4.channel.k8s.io"),
    wanted: { ...none, ...wanted },
    creationTimeoutMs: 30_000,
    reportsExitCode: true,
    run: async (streams, signal) => {
      signal.addEventListener("abort", () => aborts++);
      return await run(streams, signal);
    },
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  return { client: new SpdyTestClient(clientSocket), served, aborts: () => aborts };
}

async function open(client: SpdyTestClient, ...types: readonly string[]): Promise<number[]> {
  const ids: number[] = [];
  for (const streamType of types) ids.push(await client.open({ streamType }));
  return ids;
}

async function leave({ client, served }: Session): Promise<void> {
  client.socket.end();
  await served;
}

describe("serveRemoteCommand()", () => {
  it("S2: connects the command, sends all output before its success, and never aborts", async () => {
    const session = serve({ stdin: true, stdout: true, stderr: true }, async (streams) => {
      for await (const chunk of streams.stdin ?? []) streams.stdout?.write(chunk);
      streams.stderr?.write(Buffer.alloc(500_000, "e"));
      return { exitCode: 0 };
    });
    const { client } = session;
    const [error = 0, input = 0, out = 0, err = 0] = await open(
      client,
      "error",
      "stdin",
      "stdout",
      "stderr",
    );
    await client.frame("synReply", err);
    client.data(input, "typed", true);
    assert.deepEqual(JSON.parse((await client.ended(error)).toString()), {
      metadata: {},
      status: "Success",
    });
    assert.equal(client.received(out).toString(), "typed");
    assert.equal(client.received(err).length, 500_000);
    const ends = client.frames.flatMap((f) => (f.type === "data" && f.fin ? [f.streamId] : []));
    assert.ok(ends.indexOf(error) > ends.indexOf(out) && ends.indexOf(error) > ends.indexOf(err));
    await leave(session);
    assert.equal(session.aborts(), 0);
  });

  it("reports an exit code as a cause, and a provider's failure as an internal error", async () => {
    const exits = serve({ stdout: true }, async () => ({ exitCode: 3 }));
    const [first = 0] = await open(exits.client, "error", "stdout");
    assert.deepEqual(JSON.parse((await exits.client.ended(first)).toString()), {
      metadata: {},
      status: "Failure",
      message: "command terminated with non-zero exit code: exit status 3",
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: "3" }] },
    });
    await leave(exits);

    const fails = serve({ stdout: true }, async () => {
      throw new Error("no such file");
    });
    const [second = 0] = await open(fails.client, "error", "stdout");
    const status = JSON.parse((await fails.client.ended(second)).toString()) as object;
    assert.deepEqual(status, {
      metadata: {},
      status: "Failure",
      message: "Internal error occurred: error executing command in container: no such file",
      reason: "InternalError",
      details: { causes: [{ message: "error executing command in container: no such file" }] },
      code: 500,
    });
    await leave(fails);
  });

  it("speaks text on the error stream before v4, and no resize before v3", async () => {
    for (const protocol of ["v2.channel.k8s.io", "channel.k8s.io"]) {
      const session = serve(
        { stdout: true, tty: true },
        async ({ resizes }) => ({ exitCode: resizes === undefined ? 2 : 0 }),
        { dialect: spdyDialect(protocol) },
      );
      const [error = 0] = await open(session.client, "error", "stdout");
      const text = (await session.client.ended(error)).toString();
      assert.equal(text, "command terminated with non-zero exit code: exit status 2");
      await leave(session);
    }
  });

  it("passes on the sizes of a terminal", async () => {
    const sizes: TerminalSize[] = [];
    const session = serve({ stdout: true, tty: true }, async (streams) => {
      for await (const size of streams.resizes ?? []) {
        sizes.push(size);
        streams.stdout?.write("resized");
        if (sizes.length === 2) break;
      }
      return { exitCode: 0 };
    });
    const { client } = session;
    const [error = 0, out = 0, resize = 0] = await open(client, "error", "stdout", "resize");
    client.data(resize, '{"Width":80,"Height":24}\n');
    await client.frame("data", out);
    client.data(resize, '{"Width":10');
    client.data(resize, '0,"Height":30}');
    await client.ended(error);
    assert.deepEqual(sizes, [
      { columns: 80, rows: 24 },
      { columns: 100, rows: 30 },
    ]);
    await leave(session);
  });

  it("S1: aborts the command once when the client leaves", async () => {
    const started = Promise.withResolvers<void>();
    const session = serve({ stdout: true }, async (_streams, signal) => {
      started.resolve();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      return { exitCode: 0 };
    });
    await open(session.client, "error", "stdout");
    await started.promise;
    session.client.socket.destroy();
    await session.served;
    assert.equal(session.aborts(), 1);
  });

  it("S3, S4: aborts when its transport says that the client is gone, and only then", async () => {
    for (const isGone of [false, true]) {
      const gone = new AbortController();
      const opened = new AsyncQueue<RemoteStream>();
      const duplex = new PassThrough();
      const headers = new Map([["streamtype", "error"]]);
      opened.push({ id: 1, headers, duplex, accept: () => {}, reject: () => {} });
      const remote = { opened, gone: gone.signal, close: async () => {} };
      let wasAborted: boolean | undefined;
      await serveRemoteCommand({
        remote,
        dialect: spdyDialect("v4.channel.k8s.io"),
        wanted: none,
        creationTimeoutMs: 30_000,
        reportsExitCode: true,
        run: async (_streams, signal) => {
          if (isGone) gone.abort();
          await new Promise(setImmediate);
          wasAborted = signal.aborted;
          return { exitCode: 0 };
        },
        clock: systemClock,
        logger: silentLogger,
      });
      assert.equal(wasAborted, isGone);
    }
  });

  it("aborts before any write fails when the client resets its streams, as Go's does", async () => {
    const started = Promise.withResolvers<void>();
    const order: string[] = [];
    const session = serve({ stdout: true }, async ({ stdout }, signal) => {
      signal.addEventListener("abort", () => order.push("aborted"));
      started.resolve();
      await new Promise<void>((resolve) => stdout?.once("close", () => resolve()));
      order.push("closed");
      throw new Error("output closed");
    });
    const [, out = 0] = await open(session.client, "error", "stdout");
    await started.promise;
    session.client.send({ type: "rstStream", streamId: out, status: 5 });
    await session.client.frame("goAway");
    await leave(session);
    assert.deepEqual(order, ["aborted", "closed"]);
    assert.equal(session.aborts(), 1);
  });

  it("closes the connection of a client that does not open its streams in time", async () => {
    let ran = false;
    const session = serve(
      { stdout: true },
      async () => {
        ran = true;
        return { exitCode: 0 };
      },
      { creationTimeoutMs: 1 },
    );
    await open(session.client, "error");
    await session.client.frame("goAway");
    await leave(session);
    assert.equal(ran, false);
  });

  it("rejects streams that were not asked for, unknown ones and second ones", async () => {
    const session = serve({ stdout: true }, async ({ stdout }) => {
      stdout?.end("x");
      return { exitCode: 0 };
    });
    const { client } = session;
    const bad = await open(client, "error", "stdin", "error", "other");
    for (const id of bad.slice(1)) await client.frame("rstStream", id);
    const [out = 0] = await open(client, "stdout");
    assert.equal((await client.ended(out)).toString(), "x");
    await leave(session);
  });

  it("tells success of an attach whatever the exit code", async () => {
    const session = serve({ stdout: true }, async () => ({ exitCode: 1 }), {
      reportsExitCode: false,
    });
    const [error = 0] = await open(session.client, "error", "stdout");
    assert.match((await session.client.ended(error)).toString(), /"status":"Success"/);
    await leave(session);
  });
});
