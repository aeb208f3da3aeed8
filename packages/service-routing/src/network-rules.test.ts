import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { bucketOf, type ServiceView } from "@kip/network-view";
import { NetworkRules } from "./network-rules.ts";

const view: ServiceView = {
  clusterIps: ["10.96.0.1"],
  ports: [{ name: "", protocol: "TCP", port: 80, endpoints: ["10.1.0.9:80"] }],
};

describe("NetworkRules", () => {
  it("leaves a Service as it is that the change of its bucket says is kept, and removes others", async () => {
    const texts: string[] = [];
    const rules = new NetworkRules({
      place: { podAddresses: [], nodeAddresses: [], serviceRanges: [], localEndpoints: "own" },
      runNft: async (text) => {
        texts.push(text);
        return await Promise.resolve("");
      },
      forget: async () => await Promise.resolve(),
      logger: silentLogger,
    });
    const change = { number: 1, services: new Map(), buckets: [], groups: [] };
    await rules.apply({ ...change, services: new Map([["ns/a", view]]) });
    const buckets = [bucketOf("ns/a")];
    texts.length = 0;
    await rules.apply({ ...change, buckets, kept: new Set(["ns/a"]) });
    assert.deepEqual(texts, []);
    await rules.apply({ ...change, buckets });
    assert.match(texts.join(""), /^delete element ip kip_services_b services \{ 10\.96\.0\.1 /m);
  });
});
