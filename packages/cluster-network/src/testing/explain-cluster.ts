import type { Pod } from "@kip/k8s-types";
import type { EndpointSlice, NetworkPolicy, StoredService } from "@kip/k8s-types/network";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import { noObjects, type ClusterObjects } from "../explain/cluster-objects.ts";
import { explainNetwork, type NetworkQuestion } from "../explain/explain-network.ts";

/** Of an object in the namespace `shop`. */
export function meta(name: string): Pod["metadata"] {
  return { name, namespace: "shop", uid: name, resourceVersion: "1" };
}

/** A ready pod on a cell. */
export function pod(name: string, ip: string, parts: PodParts = {}): Pod {
  return podWith({
    metadata: { ...meta(name), labels: { app: name }, ...parts.metadata },
    spec: { nodeName: "kip", ...parts.spec },
    status: {
      phase: "Running",
      podIP: ip,
      podIPs: [{ ip }],
      conditions: [{ type: "Ready", status: "True" }],
      ...parts.status,
    },
  });
}

/** A Service of port 80 for pods with its name. */
export function service(
  name: string,
  ip: string,
  spec: Partial<StoredService["spec"]> = {},
): StoredService {
  const ports = [{ port: 80, targetPort: 8080 }];
  const base = { clusterIP: ip, clusterIPs: [ip], selector: { app: name }, ports };
  return { metadata: meta(name), spec: { ...base, ...spec } } satisfies StoredService;
}

/** A slice of a Service, with port 8080. */
export function slice(name: string, ...addresses: readonly string[]): EndpointSlice {
  return {
    metadata: { ...meta(`${name}-1`), labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: addresses.map((address, at) => ({
      addresses: [address],
      hostname: `${name}-${at}`,
    })),
  };
}

/** A NetworkPolicy. */
export function policy(name: string, spec: NonNullable<NetworkPolicy["spec"]>): NetworkPolicy {
  return { metadata: meta(name), spec };
}

const nodes = [
  {
    metadata: { name: "kip", labels: { type: "virtual-kubelet" } },
    status: { addresses: [{ type: "InternalIP", address: "10.9.0.1" }] },
  },
  { metadata: { name: "n1" } },
];
/** Pods on a virtual node and one on another, and Services. */
export const cluster: ClusterObjects = {
  ...noObjects,
  nodes,
  namespaces: [{ metadata: { name: "shop" } }],
  pods: [
    pod("a", "10.0.0.1"),
    pod("web", "10.0.0.2"),
    pod("late", "10.0.0.3", {
      status: {
        conditions: [{ type: "Ready", status: "False" }],
        containerStatuses: [
          {
            name: "main",
            ready: false,
            image: "",
            imageID: "",
            restartCount: 3,
            state: { waiting: { reason: "CrashLoopBackOff" } },
          },
        ],
      },
    }),
    pod("host", "10.9.0.1", { spec: { nodeName: "kip", hostNetwork: true } }),
    pod("far", "10.0.0.9", { spec: { nodeName: "n1" } }),
  ],
  services: [
    service("shop", "10.96.0.1", { selector: { app: "web" } }),
    service("late", "10.96.0.2"),
    service("none", "10.96.0.3"),
    service("db", "None", { selector: { app: "web" } }),
    service("outside", "", { type: "ExternalName", externalName: "db.example" }),
    service("web", "10.96.0.4"),
    service("node", "10.96.0.5", {
      type: "NodePort",
      externalTrafficPolicy: "Local",
      ports: [{ port: 80, nodePort: 30_080 }],
    }),
  ],
  slices: [slice("shop", "10.0.0.2"), slice("db", "10.0.0.2"), slice("node", "10.0.0.2")],
  serviceRanges: ["10.96.0.0/16"],
};

/** The answer to a question about the pod `a`: outcome and sentences. */
export function ask(
  to: string | undefined,
  more: Partial<NetworkQuestion> = {},
  objects: ClusterObjects = cluster,
): string {
  const found = explainNetwork(objects, { pod: "a", namespace: "shop", to, ...more });
  return `${found.outcome}: ${found.sentences.join("; ")}`;
}
