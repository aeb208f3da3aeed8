// A connection through a ClusterIP, in network namespaces that stand for a pod, its cell and other machines.
import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { NetworkRules } from "@kip/service-routing";
import { cable, podAddresses, TestNetwork } from "../../service-routing/test/test-network.ts";

const settings = path.join(import.meta.dirname, "../src/network/tracked-connections.ts");

describe("followConnections()", { timeout: 60_000 }, () => {
  it("has a connection outlive a packet that is ahead of its window", async () => {
    await using network = await TestNetwork.open();
    const { cell, others, pod } = network;
    const rules = new NetworkRules({
      place: { podAddresses, cable, nodeAddresses: [], serviceRanges: [] },
      runNft: async (text) => await network.nft(text),
      forget: async () => {},
      logger: silentLogger,
    });
    const port = { name: "", protocol: "TCP", port: 80, endpoints: ["10.0.0.11:8080"] } as const;
    const services = new Map([["default/web", { clusterIps: ["10.96.0.10"], ports: [port] }]]);
    await rules.apply({ number: 1, services, buckets: [], groups: [], policy: {} });
    const follow = `import { followConnections } from ${JSON.stringify(settings)}; followConnections();`;
    await cell.run(process.execPath, ["--input-type=module", "--eval", follow]);
    await others.listen("10.0.0.11", 8080);
    const { id, text } = await pod.start({ do: "hold", host: "10.96.0.10", port: 80 });
    assert.match(text, /^10\.0\.0\.11 /);
    const firstOfEndpoint = `table ip odd {
      chain leave {
        type filter hook output priority 0
        tcp sport 8080 tcp flags ack numgen inc mod 1000000 == 0 counter tcp sequence set 1
      }
    }`;
    await others.run("nft", ["-f", "-"], firstOfEndpoint);
    const answer = await pod.ask({ do: "echo", host: "", port: id });
    assert.match(await others.run("nft", ["list", "table", "ip", "odd"]), /counter packets 1 /);
    assert.equal(answer, "again");
  });
});
