// Relays and resets over real sockets.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "@kip/testing";
import { RelayClients } from "../src/network/relay-clients.ts";
import { openTcpRelay, reset } from "../src/network/relay.ts";

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

describe("openTcpRelay()", { timeout: 30_000 }, () => {
  /** A relay to a program that only reads, a client, and the program's end of its connection. */
  async function relayed(halfClosedMs: number) {
    const server = createServer({ allowHalfOpen: true }).listen(0, address);
    await once(server, "listening");
    const { port: targetPort } = server.address() as AddressInfo; // it listens on TCP
    const clients = new RelayClients(1);
    const options = { address, port: 0, target: address, targetPort, clients, halfClosedMs };
    const relay = await openTcpRelay(options);
    const accepted = once(server, "connection");
    const client = connect({ host: address, port: relay.port, allowHalfOpen: true });
    const [endpoint] = (await accepted) as [Socket];
    endpoint.on("error", () => {}).resume();
    return { relay, client, clients, endpoint, server };
  }

  it("ends a connection whose client has gone, and whose endpoint does not close", async () => {
    const { relay, client, endpoint, server } = await relayed(100);
    await using _ = relay;
    client.write("x");
    await once(endpoint, "data");
    client.destroy();
    // There is room for one connection. The endpoint has read everything, so it does not notice the end.
    const accepted = once(server, "connection");
    await eventually(
      async () => {
        const next = connect({ host: address, port: relay.port }).on("error", () => {});
        const closed = new Promise<undefined>((resolve) =>
          next.once("close", () => resolve(undefined)),
        );
        const isOpen = await Promise.race([accepted, closed]);
        next.destroy();
        return isOpen !== undefined;
      },
      { what: "room for another connection", limitMs: 20_000, intervalMs: 50 },
    );
    endpoint.destroy();
    server.close();
  });

  it("counts no connection any longer once it is disposed of", async () => {
    const { relay, client, clients, endpoint, server } = await relayed(60_000);
    client.on("error", () => {});
    assert.equal(
      clients.enter("another port", () => {}),
      undefined,
    );
    await relay[Symbol.asyncDispose]();
    assert.ok(clients.enter("another port", () => {}));
    endpoint.destroy();
    server.close();
  });

  it("has room of its own for each address, also where it listens at all of them", async () => {
    const server = createServer().listen(0, address);
    await once(server, "listening");
    const { port: targetPort } = server.address() as AddressInfo; // it listens on TCP
    const clients = new RelayClients(8, 1);
    const options = { address: "0.0.0.0", port: 0, target: address, targetPort, clients };
    await using relay = await openTcpRelay(options);
    const sockets: Socket[] = [];
    /** Whether a client of an address gets a connection to the target. */
    const isServed = async (host: string): Promise<boolean> => {
      const socket = connect({ host, port: relay.port });
      sockets.push(socket);
      const refused = once(socket, "close").then(
        () => false,
        () => false, // reset
      );
      return await Promise.race([once(server, "connection").then(() => true), refused]);
    };
    assert.equal(await isServed("127.0.0.1"), true);
    assert.equal(await isServed("127.0.0.1"), false);
    assert.equal(await isServed("127.0.0.2"), true);
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it("leaves a connection that is half closed while something passes it", async () => {
    const { relay, client, endpoint, server } = await relayed(1000);
    await using _ = relay;
    server.close();
    const told = once(endpoint, "end");
    client.end();
    await told;
    let received = 0;
    client.on("data", (data: Buffer) => (received += data.length));
    for (let sent = 0; sent < 30; sent++) {
      endpoint.write("x");
      await once(client, "data");
      await sleep(50);
    }
    endpoint.end();
    await once(client, "close");
    assert.equal(received, 30);
  });
});
