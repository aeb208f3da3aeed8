import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { portOf } from "@kip/base";
import { eventually } from "@kip/testing";
import { Pages } from "./pages.ts";

describe("Pages", { timeout: 60_000 }, () => {
  it("keeps one message for a page that does not read, and then sends it the newest", async (t) => {
    let number = 0;
    const message = (): string => `data: ${number}${" ".repeat(2 ** 20)}\n\n`;
    const pages = new Pages(message);
    const server = createServer((_request, response) => pages.add(response));
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const socket = connect(portOf(server), "127.0.0.1");
    const requested = once(server, "request") as Promise<[unknown, ServerResponse]>;
    socket.pause();
    socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    const [, page] = await requested;
    // The kernel's buffers take the first messages.
    for (; number < 100; number++) {
      pages.send();
      await new Promise(setImmediate);
    }
    assert.ok(page.writableNeedDrain);
    assert.ok(page.writableLength < 3 * 2 ** 20, `${page.writableLength} bytes wait`);
    let seen = "";
    socket.on("data", (chunk: Buffer) => (seen += chunk.toString().replaceAll(" ", "")));
    socket.resume();
    await eventually(() => seen.includes("data:100"), { limitMs: 30_000 });
    assert.ok((seen.match(/data:/g) ?? []).length < 50);
  });
});
