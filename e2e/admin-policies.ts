// Administrators' policies. No cluster has their API by default.

const group = "policy.networking.k8s.io";

/** The kinds, and the version of each that the tests use. */
const kinds = {
  AdminNetworkPolicy: { plural: "adminnetworkpolicies", version: "v1alpha1" },
  BaselineAdminNetworkPolicy: { plural: "baselineadminnetworkpolicies", version: "v1alpha1" },
  ClusterNetworkPolicy: { plural: "clusternetworkpolicies", version: "v1alpha2" },
} as const;

type Kind = keyof typeof kinds;

/** Name of the resource definition of a kind. */
export function definitionName(kind: Kind): string {
  return `${kinds[kind].plural}.${group}`;
}

/** The resource definition of a kind, without a schema that validates its objects. */
export function policyDefinition(kind: Kind): object {
  const { plural, version } = kinds[kind];
  const openAPIV3Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name: definitionName(kind),
      annotations: { "api-approved.kubernetes.io": "unapproved, a test" },
    },
    spec: {
      group,
      scope: "Cluster",
      names: { plural, kind },
      versions: [{ name: version, served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
}

/** A policy of a cluster administrator. */
export function adminPolicy(kind: Kind, name: string, spec: object): object {
  return {
    apiVersion: `${group}/${kinds[kind].version}`,
    kind,
    metadata: { name },
    spec,
  };
}

/** The pods of a namespace, as a policy's subject or peer. */
export function podsOf(namespace: string, labels: Readonly<Record<string, string>>): object {
  const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": namespace } };
  return { pods: { namespaceSelector, podSelector: { matchLabels: labels } } };
}
