import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { silentLogger, systemClock } from "@kip/base";
import type { LocalNetwork } from "../src/network/local-network.ts";
import { NetworkWatch } from "../src/network/network-watch.ts";

describe("NetworkWatch", { timeout: 60_000 }, () => {
  it("pauses when it cannot look after the uplink, and stops at once", async () => {
    const asked = Promise.withResolvers<void>();
    let looks = 0;
    // This process's own namespace replaces the network's.
    const network = {
      plan: {},
      namespace: { file: "/proc/self/ns/net", exists: () => Promise.resolve(true) },
      exists: () => Promise.resolve(true),
      hasInternet: () => Promise.resolve(true),
      closeLocalAddresses: () => Promise.resolve(),
      hasUplink: () => {
        looks++;
        asked.resolve();
        return Promise.reject(new Error("no"));
      },
    } as unknown as LocalNetwork; // what the watch asks of it
    const watch = new NetworkWatch({
      network,
      lock: (work) => work(),
      clock: systemClock,
      logger: silentLogger,
    });
    await watch.start();
    await asked.promise;
    await delay(1000);
    const before = looks;
    await watch.stop();
    assert.ok(before < 20, `${before} looks in a second`);
    assert.ok(looks <= before + 1);
  });
});
