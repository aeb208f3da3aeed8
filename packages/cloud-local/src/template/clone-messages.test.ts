import assert from "node:assert/strict";
import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { waitForMessage } from "./clone-messages.ts";

async function connectedPair(): Promise<readonly [Socket, Socket]> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  const accepted = once(server, "connection") as Promise<[Socket]>; // as Node documents it
  const one = createConnection(address.port, "127.0.0.1");
  const [other] = await accepted;
  server.close();
  return [one, other];
}

describe("waitForMessage()", () => {
  it("takes a word that comes in pieces", async () => {
    const [port, machine] = await connectedPair();
    const word = waitForMessage(port, "ready");
    machine.write("rea");
    machine.write("dy\n");
    await word;
    port.destroy();
    machine.destroy();
  });

  it("fails with any other word, and when the machine hangs up", async () => {
    for (const [says, expected] of [
      ["no\n", /it said "no" instead of "ready"/],
      ["rea", /it ended before it said "ready"/],
      ["x".repeat(2 ** 20), /it said "x{200}" instead of "ready"/],
    ] as const) {
      const [port, machine] = await connectedPair();
      const word = waitForMessage(port, "ready");
      machine.on("error", () => {}); // the port is closed before all of it is read
      machine.end(says);
      await assert.rejects(word, expected);
      port.destroy();
    }
  });
});
