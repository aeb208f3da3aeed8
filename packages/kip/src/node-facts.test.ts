import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CloudDriver } from "@kip/cloud";
import { createSimulatedCloud, type SimulatedCloudOptions } from "@kip/cloud/simulated";
import { decodeProviderConfig } from "./config/provider-config.ts";
import { readNodeFacts } from "./node-facts.ts";

const excluded = "node.kubernetes.io/exclude-from-external-load-balancers";

async function factsWith(
  labels: Readonly<Record<string, string>>,
  cloud: SimulatedCloudOptions = {},
  nodeLabels?: CloudDriver["nodeLabels"],
) {
  const config = decodeProviderConfig({ cloud: { local: {} }, kubelet: { labels } });
  const simulated = createSimulatedCloud(cloud).open({ owner: "owner" });
  const driver = Object.assign(simulated, { nodeLabels });
  return await readNodeFacts({ driver, config, controllerID: "owner", nodeIps: ["192.0.2.1"] });
}

async function labelsWith(...given: Parameters<typeof factsWith>) {
  return (await factsWith(...given)).labels ?? {};
}

describe("readNodeFacts()", () => {
  it("has the labels that a cloud's nodes have, which the configuration may replace", async () => {
    const labels = await labelsWith({ "node.kubernetes.io/instance-type": "mine" });
    assert.equal(labels["topology.kubernetes.io/region"], "simulated-1");
    assert.equal(labels["topology.kubernetes.io/zone"], "simulated-1");
    assert.equal(labels["node.kubernetes.io/instance-type"], "mine");
    assert.equal((await labelsWith({}))["node.kubernetes.io/instance-type"], "kip");
  });

  it("declares that pods of each class can be resized, which API servers want to know", async () => {
    assert.deepEqual((await factsWith({})).declaredFeatures, ["GuaranteedQoSPodCPUResize"]);
  });

  it("says that its cells support read-only submounts, user namespaces and policies of groups", async () => {
    const { features, runtimeHandlers } = await factsWith({});
    assert.deepEqual(features, { supplementalGroupsPolicy: true });
    const ofCells = { recursiveReadOnlyMounts: true, userNamespaces: true };
    assert.deepEqual(runtimeHandlers, [{ name: "", features: ofCells }]);
  });

  it("has the labels that the driver names, which the configuration may replace", async () => {
    const named = { "cloud.example/machines": "none", "cloud.example/kind": "virtual" };
    const labels = await labelsWith({ "cloud.example/kind": "" }, {}, named);
    assert.equal(labels["cloud.example/machines"], "none");
    assert.equal(labels["cloud.example/kind"], "");
  });

  it("has a label for each kind of processors, and says which the usual label names", async () => {
    const type = { cpuMilli: 1000, memoryBytes: 2 ** 30, gpus: 0, pricePerHour: {} };
    const types = [
      { ...type, name: "intel" },
      { ...type, name: "arm", architecture: "arm64" },
    ] as const;
    const labels = await labelsWith({}, { types });
    const own = Object.keys(labels).filter((key) => key.startsWith("node.elotl.co/arch-"));
    assert.deepEqual(own, ["node.elotl.co/arch-amd64", "node.elotl.co/arch-arm64"]);
    assert.ok(!Object.keys(await labelsWith({})).some((key) => key.includes("arch")));
    const arm = await labelsWith({ "kubernetes.io/arch": "arm64" });
    assert.deepEqual(
      [arm["kubernetes.io/arch"], arm["beta.kubernetes.io/arch"]],
      ["arm64", "arm64"],
    );
  });

  it("keeps the node from load balancers, and lets labels of the configuration win", async () => {
    assert.equal((await labelsWith({}))[excluded], "true");
    const labels = await labelsWith({ [excluded]: "no", rack: "a" });
    assert.deepEqual([labels[excluded], labels["rack"]], ["no", "a"]);
  });
});
