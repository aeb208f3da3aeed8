import assert from "node:assert/strict";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { it, mock } from "node:test";
import { HttpExchange } from "./http-exchange.ts";

it("an answer that switches to another protocol is a failure", { timeout: 10_000 }, async () => {
  const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n";
  const server = net.createServer((socket) => socket.on("error", () => {}).end(head));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  try {
    await using exchange = new HttpExchange(undefined);
    const url = new URL(`http://127.0.0.1:${port}/`);
    await assert.rejects(exchange.send({ method: "GET", url, headers: {} }), {
      message: "the connection ended without an answer",
    });
  } finally {
    server.close();
  }
});

it("an answer whose head trickles is given up", async () => {
  const server = net.createServer((socket) => socket.on("error", () => {}).write("HTTP/1.1 200"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    await using exchange = new HttpExchange(undefined);
    const url = new URL(`http://127.0.0.1:${port}/`);
    const sent = exchange.send({ method: "GET", url, headers: {} });
    mock.timers.tick(120_000);
    await assert.rejects(sent, { message: "no answer within 120 s" });
  } finally {
    mock.timers.reset();
    server.close();
  }
});
