import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ServiceView } from "@kip/network-view";
import { NetworkRules } from "../src/index.ts";
import { cable, podAddresses, TestNetwork } from "./test-network.ts";

const web: ServiceView = {
  clusterIps: ["10.96.0.10", "fd00:96::a"],
  ports: [
    {
      name: "",
      protocol: "TCP",
      port: 80,
      endpoints: ["10.0.0.11:8080", "[fd00::11]:8080"],
    },
  ],
};

/** Names the addresses of another Service's endpoints, and has none itself. */
const evil: ServiceView = {
  clusterIps: ["10.96.0.66", "fd00:96::66"],
  externalIps: ["10.0.0.11", "fd00::11"],
  ports: [{ name: "", protocol: "TCP", port: 8080, endpoints: [] }],
};

describe("a Service without endpoints whose external IPs are endpoints of another one", () => {
  let network: TestNetwork;
  before(async () => {
    network = await TestNetwork.open();
    for (const host of ["10.0.0.11", "fd00::11"]) await network.others.listen(host, 8080);
    const rules = new NetworkRules({
      place: { podAddresses, cable, nodeAddresses: [], serviceRanges: ["10.96.0.0/16"] },
      runNft: async (text) => await network.nft(text),
      forget: async () => {},
      logger: silentLogger,
    });
    const services = new Map([
      ["default/web", web],
      ["evil/none", evil],
    ]);
    await rules.apply({ number: 1, services, buckets: [], groups: [], policy: {} });
  });
  after(async () => await network[Symbol.asyncDispose]());

  it("refuses clients of these addresses, and none of the other Service", async () => {
    assert.equal(await network.pod.tcp("10.0.0.11", 8080), "error: ECONNREFUSED");
    for (const peer of [network.pod, network.cell]) {
      assert.match(await peer.tcp("10.96.0.10", 80), /^10\.0\.0\.11 /);
      assert.match(await peer.tcp("fd00:96::a", 80), /^fd00::11 /);
    }
  });
});
