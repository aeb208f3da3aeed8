import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { NetworkRules } from "../src/index.ts";
import { Peer } from "./test-network.ts";

// host 198.18.0.1 ── bridge of the cloud's namespace (gateway 198.18.0.2) ── cells 198.18.0.16, 198.18.0.17
describe("the local cloud's namespace, where br_netfilter was loaded after it was made", () => {
  for (const call of [0, 1])
    it(`leads the host to a cell's agent, whatever external IPs a Service names: bridge-nf-call-iptables=${call}`, async () => {
      await using host = new Peer();
      await using space = new Peer();
      await using cell = new Peer();
      await using other = new Peer();
      await Promise.all([host, space, cell, other].map(async (p) => await p.listen("0.0.0.0", 1)));
      await space.ip(
        "link add name bridge0 type bridge",
        ...[host, cell, other].map(
          (p, i) => `link add p${i} type veth peer name eth0 netns ${p.pid}`,
        ),
        ...[0, 1, 2].map((i) => `link set p${i} master bridge0 up`),
        "addr add 198.18.0.2/24 dev bridge0",
        "link set bridge0 up",
        "link set lo up",
      );
      for (const [p, a] of [
        [host, "198.18.0.1"],
        [cell, "198.18.0.16"],
        [other, "198.18.0.17"],
      ] as const)
        await p.ip(`addr add ${a}/24 dev eth0`, "link set eth0 up", "link set lo up");
      await space.run("sysctl", [
        "-qwe",
        "net.ipv4.ip_forward=1",
        `net.bridge.bridge-nf-call-iptables=${call}`,
      ]);
      await cell.listen("198.18.0.16", 6421);
      await other.listen("198.18.0.17", 8080);
      const rules = new NetworkRules({
        // as host-services.ts
        place: {
          podAddresses: [],
          nodeAddresses: [],
          clients: ["198.18.0.1"],
          serviceRanges: [],
          machinePorts: [6421],
          machineRanges: ["198.18.0.0/25"],
        },
        runNft: async (text) => await space.run("nft", ["-f", "-"], text),
        forget: async () => {},
        logger: silentLogger,
      });
      const of = (endpoints: readonly string[]) => ({
        clusterIps: ["10.96.0.10"],
        externalIps: ["198.18.0.16"],
        ports: [{ name: "", protocol: "TCP", port: 6421, endpoints }] as const,
      });
      for (const endpoints of [[], ["198.18.0.17:8080"]]) {
        await rules.apply({
          number: 1,
          services: new Map([["evil/web", of(endpoints)]]),
          buckets: [],
          groups: [],
          policy: {},
        });
        assert.match(await host.tcp("198.18.0.16", 6421, 2000), /^198\.18\.0\.16 198\.18\.0\.1$/);
      }
    });
});
