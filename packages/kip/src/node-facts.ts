import { randomUUID } from "node:crypto";
import type { CloudDriver, InstanceTypeOffer } from "@kip/cloud";
import { zoneLabel } from "@kip/cluster-network";
import type { NodeFacts } from "@kip/virtual-kubelet";
import type { ProviderConfig } from "./config/provider-config.ts";
import { architectureLabel, architectureLabelPrefix } from "./selection/pod-placement.ts";
import { nodeResources } from "./selection/node-resources.ts";

/** Options of {@link readNodeFacts}. */
export interface NodeFactsOptions {
  readonly driver: CloudDriver;
  readonly config: ProviderConfig;
  readonly controllerID: string;
  /** Its addresses, one of each IP family, IPv4 first. */
  readonly nodeIps: readonly string[];
}

/** The facts of the virtual node: labels, capacity, address and versions. @throws errors of the cloud */
export async function readNodeFacts(options: NodeFactsOptions): Promise<NodeFacts> {
  const { config, controllerID, driver, nodeIps } = options;
  const [internalIp = "", ...otherInternalIps] = nodeIps;
  const offers = await driver.instanceTypes();
  return {
    labels: {
      "topology.kubernetes.io/region": driver.region ?? driver.zone,
      // A node with several zones has no zone label.
      ...((driver.zones?.length ?? 1) === 1 && { [zoneLabel]: driver.zone }),
      // Each pod's instance has its own type. Tools that group nodes need one for the node.
      "node.kubernetes.io/instance-type": "kip",
      "kip.elotl.co/cloud": driver.name,
      ...architectureLabels(offers, config.nodeLabels),
      // No load balancer can use it as a backend, because it is not an instance of the cloud.
      "node.kubernetes.io/exclude-from-external-load-balancers": "true",
      ...driver.nodeLabels,
      ...config.nodeLabels,
    },
    capacity: nodeResources(
      config.capacity,
      offers,
      config.defaultVolumeBytes,
      config.extendedResources,
    ),
    internalIp,
    otherInternalIps,
    features: { supplementalGroupsPolicy: true },
    runtimeHandlers: [
      { name: "", features: { recursiveReadOnlyMounts: true, userNamespaces: true } },
    ],
    // Without this, API servers since 1.36 refuse to resize the CPU of pods of the class Guaranteed.
    declaredFeatures: ["GuaranteedQoSPodCPUResize"],
    nodeInfo: { ...nodeInfo(controllerID), ...architectureInfo(config.nodeLabels) },
  };
}

/** A label for each architecture, if there are others than amd64. The usual label can only name one. */
function architectureLabels(
  offers: readonly InstanceTypeOffer[],
  labels: ProviderConfig["nodeLabels"],
): Readonly<Record<string, string>> {
  const onOffer = new Set(offers.map(({ architecture = "amd64" }) => architecture));
  const named = labels[architectureLabel];
  return {
    ...(named !== undefined && { [`beta.${architectureLabel}`]: named }),
    ...([...onOffer].some((each) => each !== "amd64") &&
      Object.fromEntries([...onOffer].map((each) => [architectureLabelPrefix + each, ""]))),
  };
}

/** The node's reported architecture, from its label. */
function architectureInfo({
  [architectureLabel]: architecture,
}: ProviderConfig["nodeLabels"]): Partial<NonNullable<NodeFacts["nodeInfo"]>> {
  return architecture === undefined ? {} : { architecture };
}

/**
 * The node is not a machine. Kernels are those of its cells, and may differ. Its IDs are those of the installation, so they
 * stay the same wherever kip runs. A start of kip counts as its boot.
 */
function nodeInfo(controllerID: string): NonNullable<NodeFacts["nodeInfo"]> {
  return {
    machineID: controllerID.replaceAll("-", ""),
    systemUUID: controllerID,
    bootID: randomUUID(),
    osImage: "Kip, a machine for each pod",
    kernelVersion: "of-each-cell",
    containerRuntimeVersion: "crun://of-each-cell",
  };
}
