// Resets over real sockets.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { describe, it } from "node:test";
import { reset } from "../src/network/relay.ts";

const address = "127.0.0.1";

/** The ends of a connection. */
async function pair(): Promise<readonly [Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const client = connect({ host: address, port, allowHalfOpen: true });
  const [socket] = (await once(server, "connection")) as [Socket];
  server.close();
  return [socket, client];
}

describe("reset()", { timeout: 30_000 }, () => {
  it("tells the other end", async () => {
    const [socket, client] = await pair();
    const told = once(client, "error");
    reset(socket);
    const [error] = (await told) as [NodeJS.ErrnoException];
    assert.equal(error.code, "ECONNRESET");
  });

  it("closes a socket that is being ended", async () => {
    const [socket, client] = await pair();
    const closed = once(socket, "close");
    socket.end();
    reset(socket);
    socket.destroy(); // as a pipeline does
    await closed;
    client.destroy();
  });
});
