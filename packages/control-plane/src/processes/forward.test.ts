import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { describe, it } from "node:test";
import { forwardConnections, type ForwardOptions } from "./forward.ts";
import { freePort } from "./ports.ts";

/** A forward to a server that echoes and never ends a connection by itself. */
async function withForward(
  options: Partial<ForwardOptions>,
  action: (open: (from?: string) => Socket) => Promise<void>,
): Promise<void> {
  const accepted = new Set<Socket>();
  const echo = createServer({ allowHalfOpen: true }, (socket) => {
    accepted.add(socket);
    socket.on("data", (data) => socket.write(data)).on("error", () => {});
    socket.once("close", () => accepted.delete(socket));
  }).listen(0, "127.0.0.1");
  await once(echo, "listening");
  const { port: target } = echo.address() as AddressInfo; // it listens on TCP
  const port = await freePort("127.0.0.1");
  const clients: Socket[] = [];
  await using _forward = await forwardConnections({
    from: { address: "127.0.0.1", port },
    to: { address: "127.0.0.1", port: target },
    ...options,
  });
  try {
    const open = (localAddress = "127.0.0.1"): Socket => {
      const socket = connect({ host: "127.0.0.1", port, localAddress, allowHalfOpen: true });
      clients.push(socket.on("error", () => {}));
      socket.write("hello");
      return socket;
    };
    await action(open);
  } finally {
    for (const socket of [...clients, ...accepted]) socket.destroy();
    echo.close();
  }
}

/** Whether the connection echoes; otherwise it was refused. */
async function works(socket: Socket): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once("data", () => resolve(true)).once("end", () => resolve(false));
  socket.once("close", () => resolve(false));
  return await promise;
}

describe("forwardConnections()", () => {
  it("limits the connections of one address, and leaves room for others", async () => {
    await withForward({ maxPerAddress: 2, halfClosedIdleMs: 20 }, async (open) => {
      const first = [open(), open()];
      assert.deepEqual(await Promise.all(first.map(works)), [true, true]);
      assert.equal(await works(open()), false);
      assert.equal(await works(open("127.0.0.9")), true);
      const ended = once(first[0] as Socket, "close");
      first[0]?.destroy();
      await ended;
      // The forwarder notices the end a moment later.
      for (;;) if (await works(open())) break;
    });
  });

  it("limits the connections of all addresses together", async () => {
    await withForward({ maxConnections: 2 }, async (open) => {
      assert.equal(await works(open("127.0.0.8")), true);
      assert.equal(await works(open("127.0.0.9")), true);
      assert.equal(await works(open("127.0.0.10")), false);
    });
  });

  it("ends a connection that is half closed and silent", async () => {
    await withForward({ halfClosedIdleMs: 50 }, async (open) => {
      const socket = open();
      assert.equal(await works(socket), true);
      socket.end();
      await once(socket, "close");
    });
  });

  it("keeps a silent connection that is open in both directions", async () => {
    await withForward({ halfClosedIdleMs: 20 }, async (open) => {
      const watch = open();
      assert.equal(await works(watch), true);
      const other = open();
      await works(other);
      other.end();
      await once(other, "close"); // the time limit of half-closed connections has passed
      watch.write("still there");
      assert.equal(await works(watch), true);
    });
  });
});
