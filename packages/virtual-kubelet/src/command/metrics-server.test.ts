import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { describe, it } from "node:test";
import { serveMetrics } from "./metrics-server.ts";

describe("serveMetrics()", () => {
  it("takes no more than 100 connections at once, and others when they have ended", async () => {
    await using server = await serveMetrics({ host: "127.0.0.1", port: 0 }, () => "up 1\n");
    const sockets = Array.from({ length: 130 }, () => {
      const socket = net.connect(server.port, "127.0.0.1");
      return socket.on("error", () => {}).resume();
    });
    let closed = 0;
    const refused = Promise.withResolvers<void>();
    for (const socket of sockets)
      socket.once("close", () => {
        if (++closed === 30) refused.resolve();
      });
    await refused.promise;
    assert.equal(sockets.filter((socket) => !socket.closed).length, 100);
    for (const socket of sockets) socket.destroy();
    await Promise.all(sockets.filter(({ closed: is }) => !is).map((each) => once(each, "close")));
    const answer = async (): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${server.port}/metrics`);
      return await response.text();
    };
    assert.equal(await answer().catch(answer), "up 1\n");
  });
});
