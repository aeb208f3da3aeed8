import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import type { WebSocket } from "ws";
import type { RemoteStream } from "../transport/remote-streams.ts";
import type { ConnectionMemory } from "../transport/stream-memory.ts";
import { WebSocketConnection } from "./connection.ts";
import { commandChannels } from "./subprotocols.ts";
import { noLingerClock } from "../../../test/no-linger-clock.ts";
import { ampleMemory } from "../../../test/ample-memory.ts";

/** A WebSocket that sends its messages when the test says so. */
class HeldWebSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  readonly calls: string[] = [];
  readonly unsent: (() => void)[] = [];

  send(_message: unknown, _options: unknown, sent: () => void): void {
    this.calls.push("send");
    this.unsent.push(sent);
  }

  pause(): void {
    this.calls.push("pause");
  }

  resume(): void {
    this.calls.push("resume");
  }

  close(code: number): void {
    this.calls.push(`close ${code}`);
  }

  terminate(): void {
    this.calls.push("terminate");
    this.emit("close");
  }
}

describe("WebSocketConnection.close()", () => {
  it("does not hurry a client that reads the last bytes late", async () => {
    const socket = new HeldWebSocket();
    const wanted = { stdin: false, stdout: true, stderr: false, tty: false };
    const connection = new WebSocketConnection(socket as unknown as WebSocket, {
      ...commandChannels("v5.channel.k8s.io", wanted),
      streamBufferBytes: 1024,
      memory: ampleMemory(),
      idleTimeoutMs: 3_600_000,
      clock: noLingerClock,
      logger: silentLogger,
    });
    const closing = connection.close();
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    assert.deepEqual(socket.calls, ["send", "resume"]);
    for (const sent of socket.unsent) sent();
    await closing;
    assert.deepEqual(socket.calls, ["send", "resume", "close 1000", "terminate"]);
    assert.equal(connection.gone.aborted, false);
  });
});

describe("WebSocketConnection", () => {
  it("keeps a connection that has output for a silent client, as a kubelet does", async () => {
    const socket = new HeldWebSocket();
    const wanted = { stdin: false, stdout: true, stderr: false, tty: false };
    const clock = new ManualClock();
    const connection = new WebSocketConnection(socket as unknown as WebSocket, {
      ...commandChannels("v5.channel.k8s.io", wanted),
      streamBufferBytes: 1024,
      memory: ampleMemory(),
      idleTimeoutMs: 60_000,
      clock,
      logger: silentLogger,
    });
    const opened = connection.opened[Symbol.asyncIterator]();
    const { value: stream } = (await opened.next()) as IteratorYieldResult<RemoteStream>;
    for (let count = 0; count < 5; count++) {
      await clock.advance(40_000);
      stream.duplex.write("output");
    }
    assert.equal(socket.calls.includes("terminate"), false);
    await clock.advance(60_000);
    assert.equal(socket.calls.at(-1), "terminate");
  });

  it("asks once for room when many messages come after the pause, and goes on when there is some", async () => {
    const socket = new HeldWebSocket();
    const wanted = { stdin: true, stdout: false, stderr: false, tty: false };
    const room = Promise.withResolvers<void>();
    let asked = 0;
    const memory = {
      watch: () => {},
      room: () => {
        asked += 1;
        return room.promise;
      },
    };
    const connection = new WebSocketConnection(socket as unknown as WebSocket, {
      ...commandChannels("v5.channel.k8s.io", wanted),
      streamBufferBytes: 1024 * 1024,
      memory: memory as unknown as ConnectionMemory,
      idleTimeoutMs: 3_600_000,
      clock: noLingerClock,
      logger: silentLogger,
    });
    for (let count = 0; count < 1000; count++) socket.emit("message", Buffer.of(0, 1));
    assert.equal(asked, 1);
    assert.equal(socket.calls.includes("resume"), false);
    room.resolve();
    await new Promise(setImmediate);
    assert.equal(socket.calls.at(-1), "resume");
    socket.terminate();
    assert.equal(connection.gone.aborted, true);
  });
});
