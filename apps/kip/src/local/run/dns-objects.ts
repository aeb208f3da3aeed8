import { clusterWide, paths } from "@kip/k8s-client";

/** The name server's user name for the API. */
export const dnsUser = "system:coredns";

/** An object with its path in the API. */
export interface PlacedObject {
  readonly path: string;
  readonly body: object;
}

const rbac = "rbac.authorization.k8s.io";
const clusterRoles = clusterWide(`/apis/${rbac}/v1`, "clusterroles");
const clusterRoleBindings = clusterWide(`/apis/${rbac}/v1`, "clusterrolebindings");
const namespace = "kube-system";
const name = "kube-dns";
const ports = [
  { name: "dns", port: 53, protocol: "UDP" },
  { name: "dns-tcp", port: 53, protocol: "TCP" },
] as const;

/**
 * The name server's permissions, and the Service `kube-dns` for it. The Service has no selector, because no pod serves it. Kip
 * writes its EndpointSlice.
 *
 * @param place `service` is the ClusterIP, `address` is where the name server listens
 */
export function dnsObjects({
  service: clusterIP,
  address,
}: {
  readonly service: string;
  readonly address: string;
}): readonly PlacedObject[] {
  return [
    { path: clusterRoles(dnsUser), body: role() },
    { path: clusterRoleBindings(dnsUser), body: binding() },
    { path: paths.services(namespace, name), body: service(clusterIP) },
    { path: paths.endpointSlices(namespace, name), body: endpointSlice(address) },
  ];
}

function role() {
  const verbs = ["list", "watch"];
  return {
    apiVersion: `${rbac}/v1`,
    kind: "ClusterRole",
    metadata: { name: dnsUser },
    rules: [
      { apiGroups: [""], resources: ["services", "pods", "namespaces"], verbs },
      { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs },
    ],
  };
}

function binding() {
  return {
    apiVersion: `${rbac}/v1`,
    kind: "ClusterRoleBinding",
    metadata: { name: dnsUser },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: dnsUser },
    subjects: [{ apiGroup: rbac, kind: "User", name: dnsUser }],
  };
}

function service(clusterIP: string) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      namespace,
      name,
      labels: {
        "k8s-app": "kube-dns",
        "kubernetes.io/cluster-service": "true",
        "kubernetes.io/name": "CoreDNS",
      },
    },
    spec: { clusterIP, ports },
  };
}

function endpointSlice(address: string) {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace,
      name,
      labels: {
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "kip.elotl.co",
      },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready: true, serving: true } }],
    ports,
  };
}
