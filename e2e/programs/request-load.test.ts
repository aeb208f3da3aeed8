import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import { eventually } from "@kip/testing";
import { startLoad, type LoadResult } from "./request-load.ts";

type Answer = (response: http.ServerResponse, socket: Socket) => void;

/** The result of requests on one kept connection, which several of them wait for. Stops after the server got `requests`. */
async function loadOn(
  requests: number,
  answer: (ofConnection: number, connection: number) => Answer,
): Promise<LoadResult> {
  const connections = new Map<Socket, { readonly number: number; requests: number }>();
  let came = 0;
  const server = http.createServer((request, response) => {
    const { socket } = request;
    const connection = connections.get(socket) ?? { number: connections.size + 1, requests: 0 };
    connections.set(socket, connection);
    came += 1;
    connection.requests += 1;
    answer(connection.requests, connection.number)(response, socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // the server listens on a port
  const load = startLoad(`http://127.0.0.1:${port}/`, { perSecond: 0, keptPerSecond: 100 });
  try {
    await eventually(() => came >= requests, { what: `${requests} requests`, limitMs: 20_000 });
    return await load.stop();
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Slower than requests are sent, so that they wait for the connection. */
const well: Answer = (response) => setTimeout(() => response.end("well"), 50);
const reset: Answer = (_, socket) => socket.resetAndDestroy();

describe("startLoad()", () => {
  it("sends a request again that waited for a kept connection which its server then resets", async () => {
    const result = await loadOn(8, (request, connection) =>
      connection === 1 && request === 3 ? reset : well,
    );
    assert.deepEqual(result.failures, []);
    assert.equal(result.repeated, 1);
    assert.deepEqual(result.answers, { well: result.answered });
  });

  it("does not send a request again whose connection was a new one", async () => {
    const result = await loadOn(4, (_, connection) => (connection === 1 ? reset : well));
    assert.equal(result.repeated, 0);
    assert.equal(result.failures.length, 1);
    assert.match(result.failures[0] ?? "", /ECONNRESET|socket hang up/);
  });

  it("does not send a request again a second time, nor one whose answer had begun", async () => {
    const twice = await loadOn(5, (request, connection) =>
      (connection === 1 && request === 2) || connection === 2 ? reset : well,
    );
    // The second connection belongs to the repeated request, or to one that was waiting.
    assert.equal(twice.repeated, 1);
    assert.equal(twice.failures.length, 1);
    const begun: Answer = (response, socket) => {
      response.write("we", () => socket.resetAndDestroy());
    };
    const cut = await loadOn(5, (request, connection) =>
      connection === 1 && request === 2 ? begun : well,
    );
    assert.equal(cut.repeated, 0);
    assert.equal(cut.failures.length, 1);
  });
});
