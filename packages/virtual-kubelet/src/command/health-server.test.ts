import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serveHealth } from "./health-server.ts";

describe("serveHealth()", () => {
  it("answers that the process is alive, and whether it is ready", async () => {
    let health = { isReady: false, doing: "starting" };
    await using server = await serveHealth({ host: "127.0.0.1", port: 0 }, () => health);
    const ask = async (path: string): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${server.port}${path}`);
      return `${response.status} ${(await response.text()).trim()}`;
    };
    assert.equal(await ask("/livez"), "200 ok");
    assert.equal(await ask("/readyz"), "503 starting");
    health = { isReady: true, doing: "waiting for the Lease of the node" };
    assert.equal(await ask("/readyz?verbose"), "200 waiting for the Lease of the node");
    assert.match(await ask("/metrics"), /^404/);
    assert.match(await ask("/toString"), /^404/);
  });
});
