import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { describe, it, mock } from "node:test";
import { ManualClock } from "@kip/testing";
import { OwnAddresses } from "./own-addresses.ts";

const [own, others, asked] = ["203.0.113.1", "203.0.113.9", "198.51.100.1"];

/** A computer with some addresses. Undefined while the process has no free file descriptor. */
class Computer implements Disposable {
  addresses: readonly string[] | undefined = [own];
  readonly #asked = mock.method(os, "networkInterfaces", () => {
    if (!this.addresses) throw new Error("uv_interface_addresses returned error 24");
    return { eth0: this.addresses.map((address) => ({ address, family: "IPv4" })) };
  });

  constructor() {
    syncBuiltinESMExports();
  }

  get lists(): number {
    return this.#asked.mock.callCount();
  }

  [Symbol.dispose](): void {
    this.#asked.mock.restore();
    syncBuiltinESMExports();
  }
}

describe("OwnAddresses", () => {
  it("takes a client for a program here that has an address of this computer, or has asked for its own", () => {
    using computer = new Computer();
    const addresses = new OwnAddresses(new ManualClock());
    for (const client of [own, "127.0.0.1"]) assert.equal(addresses.has(client, asked), true);
    assert.equal(addresses.has(others, asked), false);
    // The address of a device without a carrier.
    computer.addresses = [];
    assert.equal(addresses.has(others, others), true);
  });

  it("lists addresses once a second, however many clients come", async () => {
    using computer = new Computer();
    const clock = new ManualClock();
    const addresses = new OwnAddresses(clock);
    for (let client = 0; client < 1000; client++) addresses.has(`203.0.113.${client}`, asked);
    assert.equal(computer.lists, 1);
    computer.addresses = [others];
    await clock.advance(1000);
    assert.equal(addresses.has(others, asked), true);
    assert.equal(addresses.has(own, asked), false);
  });

  it("returns the previous addresses while the process has no file descriptor left", async () => {
    using computer = new Computer();
    const clock = new ManualClock();
    const addresses = new OwnAddresses(clock);
    addresses.list();
    computer.addresses = undefined;
    await clock.advance(1000);
    assert.deepEqual(addresses.list(), [own]);
    assert.equal(addresses.has(own, asked), true);
    assert.equal(addresses.has(others, asked), false);
  });
});
