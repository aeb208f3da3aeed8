import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import type { ApiClient } from "@kip/k8s-client";
import { decodeProviderConfig } from "./config/provider-config.ts";
import { startKip } from "./start-kip.ts";

describe("startKip()", () => {
  it("ends a start that gets no answer when its signal aborts", async () => {
    await using driver = createSimulatedCloud().open({ owner: "me" });
    const turn = new AbortController();
    const ended = new Error("the turn is over");
    const asked = Promise.withResolvers<void>();
    // Behaves like a client that has lost its server.
    const patch = async (): Promise<never> => {
      asked.resolve();
      return await new Promise<never>(() => {});
    };
    const starting = startKip({
      client: { patch } as unknown as ApiClient, // the first call of a start
      driver,
      config: decodeProviderConfig({ cloud: { local: {} } }),
      controllerID: "me",
      nodeName: "kip",
      nodeIps: ["192.0.2.1"],
      clusterDns: [],
      logDir: "/nowhere",
      signal: turn.signal,
      clock: systemClock,
      logger: silentLogger,
    }).then(
      () => "started",
      (error: unknown) => error,
    );
    await asked.promise;
    turn.abort(ended);
    await setImmediate();
    assert.equal(await Promise.race([starting, setImmediate("hangs")]), ended);
  });
});
