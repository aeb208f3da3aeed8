import type { Pod } from "@kip/k8s-types";
import { canonicalAddress } from "@kip/network-view";
import { podName, type ClusterObjects, type KnownCluster } from "./cluster-objects.ts";
import { memberOf } from "./explain-service.ts";

/** The meaning of a text that a user gave as the destination of a connection. */
export type Target =
  | { readonly kind: "pod"; readonly pod: Pod; readonly port: number | undefined }
  | { readonly kind: "service"; readonly key: string; readonly port: number | undefined }
  | { readonly kind: "address"; readonly address: string; readonly port: number | undefined }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "none"; readonly reason: string };

/** Parts of such a text: `pod/NAME`, `service/NAMESPACE/NAME`, `web.shop.svc:80`, `[fd00::1]:80`. */
interface TargetText {
  readonly kind: "pod" | "service" | undefined;
  readonly namespace: string | undefined;
  readonly host: string;
  readonly port: number | undefined;
}

const kinds: Readonly<Record<string, "pod" | "service">> = {
  pod: "pod",
  pods: "pod",
  po: "pod",
  service: "service",
  services: "service",
  svc: "service",
};

/** Finds the meaning of a text. @param namespace the namespace for names without one */
export function findTarget(cluster: KnownCluster, text: string, namespace: string): Target {
  const parts = readTarget(text);
  if (!parts) return none(`"${text}" has a port that is not a number from 1 to 65535`);
  const { kind, host, port } = parts;
  const address = canonicalAddress(host);
  if (address !== undefined) return { kind: "address", address, port };
  const home = parts.namespace ?? namespace;
  if (kind === "pod") return podTarget(cluster, home, parts);
  if (kind === "service") return { kind, key: `${home}/${host}`, port };
  return host.includes(".")
    ? dnsTarget(cluster, host.split("."), port)
    : plainTarget(cluster, home, parts);
}

/** The pod that a text stands for: a name, or a namespace and a name. */
export function findPod(objects: ClusterObjects, text: string, namespace: string): Pod | undefined {
  const words = text.split("/");
  const name = words.at(-1) ?? "";
  const first = words.length === 2 ? words[0] : words.length === 3 ? words[1] : undefined;
  const isKind = words.length === 2 && first !== undefined && Object.hasOwn(kinds, first);
  return podOf(objects, isKind || first === undefined ? namespace : first, name);
}

function readTarget(text: string): TargetText | undefined {
  const words = text.split("/");
  const first = words[0] ?? "";
  const kind = words.length > 1 && Object.hasOwn(kinds, first) ? kinds[first] : undefined;
  const rest = kind === undefined ? words : words.slice(1);
  const last = rest.at(-1) ?? "";
  const namespace = rest.length > 1 ? rest.at(-2) : undefined;
  const colon = canonicalAddress(last) === undefined ? last.lastIndexOf(":") : -1;
  const bare = colon < 0 ? last : last.slice(0, colon);
  const host = bare.startsWith("[") && bare.endsWith("]") ? bare.slice(1, -1) : bare;
  if (colon < 0) return { kind, namespace, host, port: undefined };
  const digits = last.slice(colon + 1);
  const port = /^\d{1,5}$/.test(digits) ? Number(digits) : 0;
  return port >= 1 && port <= 65_535 ? { kind, namespace, host, port } : undefined;
}

function podTarget(cluster: KnownCluster, namespace: string, { host, port }: TargetText): Target {
  const pod = podOf(cluster.objects, namespace, host);
  return pod ? { kind: "pod", pod, port } : none(`There is no pod ${namespace}/${host}`);
}

function podOf({ pods }: ClusterObjects, namespace: string, name: string): Pod | undefined {
  return pods.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
}

function plainTarget(cluster: KnownCluster, namespace: string, parts: TargetText): Target {
  const { host, port } = parts;
  const key = `${namespace}/${host}`;
  const pod = podOf(cluster.objects, namespace, host);
  const service = cluster.index.service(key);
  if (pod && service)
    return none(`${key} is a pod and a Service: write pod/${host} or service/${host}`);
  if (pod) return { kind: "pod", pod, port };
  if (service) return { kind: "service", key, port };
  return none(`There is no pod and no Service ${key}`);
}

/** Names as pods use them: of a Service, of one member of a headless Service, or outside of the cluster. */
function dnsTarget(
  cluster: KnownCluster,
  labels: readonly string[],
  port: number | undefined,
): Target {
  const [first = "", second = "", third = "", fourth] = labels;
  const name = labels.join(".");
  if (third === "svc") return { kind: "service", key: `${second}/${first}`, port };
  if (fourth === "svc") {
    const pod = memberOf(cluster, `${third}/${second}`, first);
    if (pod) return { kind: "pod", pod, port };
    return none(`Service ${third}/${second} has no endpoint with the hostname ${first}`);
  }
  const key = `${second}/${first}`;
  if (labels.length === 2 && cluster.index.service(key)) return { kind: "service", key, port };
  return { kind: "name", name };
}

function none(reason: string): Target {
  return { kind: "none", reason };
}

/** Where a pod is, as a sentence. */
export function placeOfPod({ objects }: KnownCluster, pod: Pod): string {
  const { nodeName } = pod.spec;
  if (nodeName === undefined) return `${podName(pod)} has no node yet`;
  const node = objects.nodes.find(({ metadata }) => metadata?.name === nodeName);
  const on = `${podName(pod)} is on node ${nodeName}`;
  if (!node || node.metadata?.labels?.["type"] === "virtual-kubelet") return on;
  return `${on}, which is not a virtual node: its own kube-proxy and network plugin decide there, and what follows is what the objects mean`;
}
