import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ViewChange } from "@kip/network-view";
import { NetworkRules } from "./network-rules.ts";
import { prepareTables } from "./prepared-tables.ts";
import type { RoutingPlace } from "./routing-place.ts";

const cable = "kip-pod";
const place: RoutingPlace = {
  podAddresses: ["10.1.0.2"],
  cable,
  nodeAddresses: ["10.0.0.200"],
  serviceRanges: ["10.96.0.0/16"],
};
const port = { name: "", protocol: "TCP", port: 80, endpoints: ["10.0.0.1:80", "10.0.0.2:80"] };
const change = {
  number: 1,
  services: new Map([["default/web", { clusterIps: ["10.96.0.1"], ports: [port] }]]),
  buckets: [],
  groups: [],
  policy: {},
} as ViewChange;

/** What nft gets for the first change, one text per run. */
async function firstTexts(
  first: Partial<RoutingPlace> = {},
  options: { readonly takesOver?: boolean; readonly change?: ViewChange } = {},
): Promise<readonly string[]> {
  const texts: string[] = [];
  const prepared = await prepareTables({ cable, runNft: async () => {} });
  const rules = new NetworkRules({
    place: { ...place, ...first },
    prepared,
    takesOver: options.takesOver,
    runNft: async (text) => {
      texts.push(text);
      return "";
    },
    forget: async () => {},
    logger: silentLogger,
  });
  await rules.apply(options.change ?? change);
  return texts;
}

describe("prepareTables()", () => {
  it("leaves elements, and the rules of the policy, to a pod's first change", async () => {
    const [text = "", ...others] = await firstTexts();
    assert.deepEqual(others, []);
    const lines = text.split("\n").filter((line) => !line.startsWith("add element "));
    assert.deepEqual(lines, [
      "add chain ip kip_policy ingress",
      "add chain ip kip_policy egress",
      "add rule ip kip_policy ingress ip saddr @nodes accept",
      "add rule ip kip_policy ingress accept",
      "add rule ip kip_policy egress accept",
      "",
    ]);
    assert.match(text, /services_a pods \{ 10\.1\.0\.2 \}/);
    assert.match(text, /services_a service_ranges \{ 10\.96\.0\.0\/16 \}/);
    assert.match(text, /kip_policy nodes \{ 10\.0\.0\.200 \}/);
  });

  it("adds a chain for a number of endpoints that was not prepared", async () => {
    const many = { ...port, endpoints: Array.from({ length: 20 }, (_, i) => `10.0.0.${i}:80`) };
    const services = new Map([["default/web", { clusterIps: ["10.96.0.1"], ports: [many] }]]);
    const [text = ""] = await firstTexts({}, { change: { ...change, services } as ViewChange });
    assert.match(text, /add chain ip kip_services_a balance\/20/);
  });

  it("stays closed while the pod has no policy", async () => {
    const texts = await firstTexts({}, { change: { ...change, policy: undefined } });
    assert.match(texts.join(""), /add element ip kip_services_a/);
    assert.doesNotMatch(texts.join(""), /rule/);
  });

  for (const [name, first, options] of [
    ["has no cable", { cable: undefined, podAddresses: [] }, {}],
    ["has another family's address", { podAddresses: ["10.1.0.2", "fd00::2"] }, {}],
    ["has rules of an earlier process", {}, { takesOver: true }],
  ] as const)
    it(`is not used by a place that ${name}`, async () => {
      const texts = await firstTexts(first, options);
      assert.match(texts.join(""), /delete table/);
    });
});
