import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { portOf } from "./node-objects.ts";

describe("portOf()", () => {
  it("gives the port of a server that listens, and throws for one that does not", async () => {
    const server = createServer();
    assert.throws(() => portOf(server), /Cannot read the port of a server/);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      assert.ok(portOf(server) > 0);
    } finally {
      server.close();
    }
  });
});
