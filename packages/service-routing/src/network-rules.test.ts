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

  it("puts a policy in force beside that of an earlier process, and removes that one in another transaction", async () => {
    const texts: string[] = [];
    let there = "kip_policy";
    const start = (): NetworkRules =>
      new NetworkRules({
        place: {
          podAddresses: ["10.1.0.2"],
          cable: "kip-pod",
          nodeAddresses: [],
          serviceRanges: [],
          localEndpoints: "own",
        },
        takesOver: true,
        runNft: async (text) => {
          if (text.startsWith("list")) return await Promise.resolve(`table ip ${there}\n`);
          texts.push(text);
          return "";
        },
        forget: async () => await Promise.resolve(),
        logger: silentLogger,
      });
    const change = { number: 1, services: new Map(), buckets: [], groups: [], policy: {} };
    for (const [old, next] of [
      ["kip_policy", "kip_policy_b"],
      ["kip_policy_b", "kip_policy"],
    ] as const) {
      there = old;
      texts.length = 0;
      const rules = start();
      await rules.apply(change);
      const isMade = (text: string): boolean => text.includes(`table ip ${next} {`);
      const isRemoved = (text: string): boolean => text.includes(`delete table ip ${old}\n`);
      assert.deepEqual(
        texts
          .flatMap((text) => [isMade(text) ? "made" : [], isRemoved(text) ? "removed" : []])
          .flat(),
        ["made", "removed"],
      );
      assert.ok(texts.every((text) => !isMade(text) || !isRemoved(text)));
      texts.length = 0;
      await rules.apply({ ...change, policy: { ingress: [] } });
      assert.match(texts[0] ?? "", new RegExp(`^flush chain ip ${next} ingress$`, "m"));
    }
  });
});
