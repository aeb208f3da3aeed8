import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import path from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { runGroup } from "./support/run-group.ts";

describe("runGroup()", () => {
  it("ends processes that the program has started, too", async () => {
    using folder = temporaryFolder();
    const address = path.join(folder.path, "socket");
    // The grandchild holds a connection while it is alive.
    const server = createServer().listen(address);
    const hold = `require("net").connect(${JSON.stringify(address)}); setInterval(() => {}, 1e6)`;
    const stop = new AbortController();
    const script = `"$0" -e '${hold}'; true`;
    const running = runGroup("sh", ["-c", script, process.execPath], { signal: stop.signal });
    const [connection] = await once(server, "connection");
    stop.abort(new Error("the test is over"));
    await Promise.all([
      assert.rejects(running, /test is over/),
      once(connection.resume(), "close"),
    ]);
    server.close();
  });
});
