import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { describe, it, type TestContext } from "node:test";
import { portOf, silentLogger, systemClock } from "@kip/base";
import { createApiClient } from "@kip/k8s-client";
import { eventually } from "@kip/testing";
import { listCells } from "../cluster/list-cells.ts";
import { watchState } from "./watch-state.ts";

/** A server in place of the API server, and the state that follows from its responses. */
async function follow(t: TestContext, listener: RequestListener) {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = new AbortController();
  const client = createApiClient(
    {
      server: `http://127.0.0.1:${portOf(server)}`,
      namespace: "default",
      source: "test",
      credentials: async () => ({ verifyServer: true, headers: {} }),
    },
    { userAgent: "test/1", logger: silentLogger, clock: systemClock },
  );
  let changes = 0;
  const { signal } = stop;
  const state = watchState(client, { signal, onChange: () => changes++ });
  const end = (): void => {
    server.close();
    server.closeAllConnections();
  };
  t.after(() => {
    stop.abort();
    client.close();
    end();
  });
  return { state, client, end, changes: () => changes };
}

describe("watchState()", { timeout: 60_000 }, () => {
  it("says why the state may be old when the API server is gone", async (t) => {
    const { state, end, changes } = await follow(t, (request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      if (request.url?.includes("watch=true")) return response.flushHeaders();
      response.end(JSON.stringify({ metadata: { resourceVersion: "1" }, items: [] }));
    });
    await state.synced;
    assert.equal(state.facts().problem, undefined);
    end();
    await eventually(() => state.facts().problem !== undefined, { limitMs: 30_000 });
    assert.ok(changes() > 0);
  });

  it("rejects with the right that is missing, instead of waiting for it", async (t) => {
    const message = 'cells.kip.elotl.co is forbidden: User "u" cannot list resource "cells"';
    const { state } = await follow(t, (_request, response) => {
      response.writeHead(403, { "content-type": "application/json" });
      response.end(
        JSON.stringify({
          kind: "Status",
          status: "Failure",
          code: 403,
          reason: "Forbidden",
          message,
        }),
      );
    });
    await assert.rejects(state.synced, { code: "K8S_FORBIDDEN", message: /cannot list resource/ });
  });

  it("rejects where the cluster has no Cells, and listCells() too", async (t) => {
    const { state, client } = await follow(t, (_request, response) => {
      response.writeHead(404, { "content-type": "text/plain" });
      response.end("404 page not found\n");
    });
    const noCells = { code: "NO_KIP_NODE", message: /has no Cell resource/, remedy: /--context/ };
    await assert.rejects(state.synced, noCells);
    await assert.rejects(listCells(client, { signal: t.signal }), noCells);
  });
});
