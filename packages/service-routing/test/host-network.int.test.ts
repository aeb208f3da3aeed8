import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { NetworkRules } from "../src/index.ts";
import { cellAddresses, TestNetwork } from "./test-network.ts";

describe("a pod with the machine's own network and externalTrafficPolicy Local", () => {
  let network: TestNetwork;
  before(async () => {
    network = await TestNetwork.open();
    await network.cell.listen(cellAddresses[0], 8080);
    await network.others.listen("10.0.0.11", 8080);
    const rules = new NetworkRules({
      place: {
        podAddresses: [],
        machineAddresses: cellAddresses,
        nodeAddresses: ["10.0.0.200"],
        serviceRanges: ["10.96.0.0/16"],
        machinePorts: [6421],
      },
      runNft: async (text) => await network.nft(text),
      forget: async () => {},
      logger: silentLogger,
    });
    const endpoints = ["10.0.0.2:8080"];
    const port = {
      name: "",
      protocol: "TCP",
      port: 80,
      nodePort: 30_080,
      endpoints,
      localEndpoints: endpoints,
    } as const;
    const view = {
      clusterIps: ["10.96.0.10"],
      loadBalancerIps: ["203.0.113.1"],
      isExternalLocal: true,
      isInternalLocal: true,
      ports: [port],
    };
    await rules.apply({
      number: 0,
      services: new Map([["default/web", view]]),
      buckets: [],
      groups: [],
      policy: {},
    });
  });
  after(async () => await network[Symbol.asyncDispose]());
  it("answers itself", async () => {
    assert.equal(await network.cell.tcp("10.96.0.10", 80, 1000), "10.0.0.2 10.0.0.2");
    assert.equal(await network.cell.tcp("203.0.113.1", 80, 1000), "10.0.0.2 10.0.0.2");
    assert.equal(await network.cell.tcp("10.0.0.2", 30_080, 1000), "10.0.0.2 10.0.0.2");
  });
  it("answers clients from elsewhere, and sees their address", async () => {
    await network.others.ip("route add 203.0.113.1/32 via 10.0.0.2");
    assert.match(await network.others.tcp("10.0.0.2", 8080, 1000), /^10.0.0.2 /);
    assert.match(await network.others.tcp("10.0.0.2", 30_080, 1000), /^10.0.0.2 10.0.0.1/);
    assert.match(await network.others.tcp("203.0.113.1", 80, 1000), /^10.0.0.2 10.0.0.1/);
  });
});

describe("a hand-made endpoint at a machine's own port", () => {
  for (const podAddresses of [[], ["10.1.0.2"]])
    it(`is reached through no Service: ${podAddresses.length === 0 ? "a pod with the machine's network" : "a pod with a cable"}`, async () => {
      await using network = await TestNetwork.open();
      const { cell, others, pod } = network;
      await cell.listen(cellAddresses[0], 6421);
      await cell.listen(cellAddresses[0], 8080);
      const rules = new NetworkRules({
        place: {
          podAddresses,
          nodeAddresses: ["10.0.0.200"],
          serviceRanges: ["10.96.0.0/16"],
          machinePorts: [6421],
        },
        runNft: async (text) => await network.nft(text),
        forget: async () => {},
        logger: silentLogger,
      });
      const portTo = (target: number) =>
        ({
          name: "",
          protocol: "TCP",
          port: target === 6421 ? 80 : 81,
          nodePort: target === 6421 ? 30_080 : 30_081,
          endpoints: [`10.0.0.2:${target}`],
        }) as const;
      const view = {
        clusterIps: ["10.96.0.10"],
        externalIps: ["10.0.0.2"],
        ports: [portTo(6421), portTo(8080)],
      };
      const services = new Map([["evil/web", view]]);
      await rules.apply({ number: 0, services, buckets: [], groups: [], policy: {} });
      assert.match(await others.tcp("10.0.0.2", 6421, 1000), /^10\.0\.0\.2 /);
      assert.match(await others.tcp("10.0.0.2", 30_081, 1000), /^10\.0\.0\.2 /);
      for (const port of [80, 30_080])
        assert.equal(await others.tcp("10.0.0.2", port, 500), "error: timeout");
      const own = podAddresses.length === 0 ? cell : pod;
      assert.match(await own.tcp("10.96.0.10", 81, 1000), /^10\.0\.0\.2 /);
      assert.equal(await own.tcp("10.96.0.10", 80, 500), "error: timeout");
    });
});
