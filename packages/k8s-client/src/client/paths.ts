import { K8sError } from "../errors.ts";

/**
 * Paths of the API server's resources. Without a name: the collection. Without a namespace: of all namespaces.
 *
 * @example
 * ```ts
 * import { paths } from "@kip/k8s-client";
 *
 * assert.equal(paths.pods(), "/api/v1/pods");
 * assert.equal(paths.pods("team", "web", "status"), "/api/v1/namespaces/team/pods/web/status");
 * assert.equal(paths.nodes("a"), "/api/v1/nodes/a");
 * ```
 */
export const paths = {
  pods: core("pods"),
  configMaps: core("configmaps"),
  secrets: core("secrets"),
  services: core("services"),
  endpoints: core("endpoints"),
  events: core("events"),
  serviceAccounts: core("serviceaccounts"),
  persistentVolumeClaims: core("persistentvolumeclaims"),
  leases: namespaced("/apis/coordination.k8s.io/v1", "leases"),
  endpointSlices: namespaced("/apis/discovery.k8s.io/v1", "endpointslices"),
  networkPolicies: namespaced("/apis/networking.k8s.io/v1", "networkpolicies"),
  serviceCidrs: clusterWide("/apis/networking.k8s.io/v1", "servicecidrs"),
  runtimeClasses: clusterWide("/apis/node.k8s.io/v1", "runtimeclasses"),
  namespaces: clusterWide("/api/v1", "namespaces"),
  nodes: clusterWide("/api/v1", "nodes"),
  persistentVolumes: clusterWide("/api/v1", "persistentvolumes"),
  certificateSigningRequests: clusterWide(
    "/apis/certificates.k8s.io/v1",
    "certificatesigningrequests",
  ),
  customResourceDefinitions: clusterWide(
    "/apis/apiextensions.k8s.io/v1",
    "customresourcedefinitions",
  ),
  /** Kip's own resource, which is cluster-wide. */
  cells: clusterWide("/apis/kip.elotl.co/v1beta1", "cells"),
} as const;

/** Path of a namespaced resource: `(namespace?, name?, subresource?)`. */
export type NamespacedPath = (namespace?: string, name?: string, subresource?: string) => string;
/** Path of a cluster-wide resource: `(name?, subresource?)`. */
export type ClusterPath = (name?: string, subresource?: string) => string;

/** Paths of a namespaced resource of an API group, for example of a custom one. */
export function namespaced(groupVersion: string, resource: string): NamespacedPath {
  return (namespace, name, subresource) => {
    const scope = namespace === undefined ? "" : `/namespaces/${segment(namespace)}`;
    return `${groupVersion}${scope}/${resource}${tail(name, subresource)}`;
  };
}

/** Paths of a cluster-wide resource of an API group, for example of a custom one. */
export function clusterWide(groupVersion: string, resource: string): ClusterPath {
  return (name, subresource) => `${groupVersion}/${resource}${tail(name, subresource)}`;
}

function core(resource: string): NamespacedPath {
  return namespaced("/api/v1", resource);
}

/**
 * A name as one segment of a path.
 *
 * @throws {K8sError} code `K8S_INVALID` for a name that client-go also refuses. Names come from pods, and a proxy in front of
 * the API server may turn "%2F" and ".." into a path to another object
 */
function segment(name: string): string {
  if (name !== "" && name !== "." && name !== ".." && !/[/%]/.test(name))
    return encodeURIComponent(name);
  throw new K8sError("K8S_INVALID", `Cannot use ${JSON.stringify(name)} as the name of an object`);
}

function tail(name: string | undefined, subresource: string | undefined): string {
  const named = name === undefined ? "" : `/${segment(name)}`;
  return subresource === undefined ? named : `${named}/${subresource}`;
}
