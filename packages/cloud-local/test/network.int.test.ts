import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, it } from "node:test";
import { hasCode, runCommand } from "@kip/base";
import { namespaceOf } from "../src/network/namespace.ts";
import { hostSnapshot } from "./support/host-snapshot.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const name = "kiptnet";
const test = await prepareTestCloud(name, 1);
const range = test.options.range ?? "";
after(() => test.remove());

/** A "machine": a namespace on the bridge, configured as a cell is, with curl in place of a guest. */
const probe = namespaceOf(`${name}-probe`);

describe("LocalNetwork", { timeout: 120_000 }, () => {
  it("leaves nothing on the host", async () => {
    const before = await hostSnapshot(name, range);
    await using cloud = await test.open({ internet: "auto" });
    await cloud.prepareNetwork();
    await cloud.prepareNetwork();
    const during = await hostSnapshot(name, range);
    assert.ok(during.length > before.length);
    await cloud.removeNetwork();
    await cloud.removeNetwork();
    assert.deepEqual(await hostSnapshot(name, range), before);
  });

  it("adds one device, one address and its route to the host, no rule", async () => {
    const rules = async (): Promise<string> =>
      (await runCommand("nft", ["list", "ruleset"])).stdout;
    const before = await rules();
    await using cloud = await test.open();
    await cloud.prepareNetwork();
    const routes = (await runCommand("ip", ["-o", "route", "show", "dev", `${name}0`])).stdout;
    assert.match(
      routes,
      new RegExp(`^${range} proto kernel scope link src ${cloud.hostAddress} ?\n$`),
    );
    assert.equal(await rules(), before);
    await cloud.removeNetwork();
  });

  it("refuses a range that the host has a route into", async () => {
    const device = `${name}x`;
    await runCommand("ip", ["link", "add", device, "type", "bridge"]);
    try {
      const [first = ""] = range.split("/");
      await runCommand("ip", ["addr", "add", `${first}/24`, "dev", device]);
      await runCommand("ip", ["link", "set", device, "up"]);
      await using cloud = await test.open();
      await assert.rejects(cloud.prepareNetwork(), (error) => {
        assert.ok(hasCode(error, "CLOUD_INVALID_REQUEST"));
        assert.match(String(error), /this machine has the route "198\.18\.\d+\.0\/24 dev kiptnetx/);
        return true;
      });
    } finally {
      await runCommand("ip", ["link", "delete", device]);
    }
  });

  it("leads machines out and keeps them from the host's loopback", async (context) => {
    const hasProgram = await runCommand("sh", ["-c", "command -v slirp4netns"]).catch(
      () => undefined,
    );
    if (!hasProgram) return context.skip("slirp4netns is not installed");
    await using cloud = await test.open({ internet: true });
    await cloud.prepareNetwork();
    // An address that only the host has, as if it were somewhere in the internet.
    const outside = "198.51.100.77";
    const device = `${name}o`;
    await runCommand("ip", ["link", "add", device, "type", "bridge"]);
    await runCommand("ip", ["addr", "add", `${outside}/32`, "dev", device]);
    await runCommand("ip", ["link", "set", device, "up"]);
    await using beyond = await listen(outside);
    await using loopback = await listen("127.0.0.1");
    await using host = await listen(cloud.hostAddress);
    try {
      const { nameservers } = await cloud.networkFacts();
      const gateway = nameservers[0] ?? "";
      await joinBridge(gateway);
      const uplinkHost = gateway.replace(/\d+\.\d+$/, (end) => {
        const third = Number(end.split(".")[0]) + 3; // the last /24 of the lower half of a /21
        return `${third}.2`;
      });
      assert.equal(await fetchFrom(`http://${outside}:${beyond.port}`), "hello");
      assert.equal(await fetchFrom(`http://${cloud.hostAddress}:${host.port}`), "hello");
      for (const address of [cloud.hostAddress, gateway, uplinkHost, outside, "127.0.0.1"])
        assert.equal(await fetchFrom(`http://${address}:${loopback.port}`), undefined, address);
    } finally {
      await probe.remove();
      await runCommand("ip", ["link", "delete", device]);
    }
    return undefined;
  });

  async function joinBridge(gateway: string): Promise<void> {
    await probe.create();
    const cells = namespaceOf(name);
    await cells.run("ip", [
      "link",
      "add",
      "probe",
      "type",
      "veth",
      "peer",
      "name",
      "eth0",
      "netns",
      probe.file,
    ]);
    await cells.run("ip", ["link", "set", "probe", "master", "cells", "up"]);
    const address = gateway.replace(/\.2$/, ".99");
    await probe.run("ip", ["addr", "add", `${address}/21`, "dev", "eth0"]);
    await probe.run("ip", ["link", "set", "eth0", "up"]);
    await probe.run("ip", ["route", "add", "default", "via", gateway]);
  }

  async function fetchFrom(url: string): Promise<string | undefined> {
    const args = ["--silent", "--max-time", "3", "--noproxy", "*", url];
    return await probe.run("curl", args).then(
      ({ stdout }) => stdout,
      () => undefined,
    );
  }
});

async function listen(address: string): Promise<AsyncDisposable & { readonly port: number }> {
  const server: Server = createServer((_request, response) => response.end("hello"));
  server.listen(0, address);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port, // it listens on TCP
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}
