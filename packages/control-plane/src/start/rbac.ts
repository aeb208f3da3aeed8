import { kipUser, kubeletClientUser } from "../certificates/control-plane-certificates.ts";

const watch = ["list", "watch"] as const;

/** Namespace of what kip itself keeps in the cluster. */
const kipNamespace = "kip-system";

/** One rule of a role, as in the API group `rbac.authorization.k8s.io`. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/**
 * What a virtual kubelet and its provider do, cluster-wide; nothing else. The manifests in `deploy/` are made from it, too.
 * `kip cleanup` deletes Nodes and Leases as an administrator.
 */
export const kipRules: readonly PolicyRule[] = [
  rule("", ["nodes"], ["get", ...watch, "create", "patch"]),
  rule("", ["nodes/status"], ["patch"]),
  rule("", ["pods"], ["get", ...watch, "delete"]),
  rule("", ["pods/status"], ["patch"]),
  rule("", ["pods/eviction"], ["create"]),
  rule("", ["replicationcontrollers"], ["get"]),
  rule("apps", ["replicasets"], ["get"]),
  rule("", ["services", "namespaces"], ["get", ...watch]),
  rule("", ["serviceaccounts"], ["get"]),
  rule("", ["events"], ["create", "patch"]),
  rule("coordination.k8s.io", ["leases"], ["get", ...watch, "create", "update"]),
  rule("discovery.k8s.io", ["endpointslices"], watch),
  rule("networking.k8s.io", ["networkpolicies"], watch),
  rule("networking.k8s.io", ["servicecidrs"], ["list"]),
  rule(
    "policy.networking.k8s.io",
    ["adminnetworkpolicies", "baselineadminnetworkpolicies", "clusternetworkpolicies"],
    watch,
  ),
  rule("node.k8s.io", ["runtimeclasses"], ["get"]),
  rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
  rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
  rule("certificates.k8s.io", ["certificatesigningrequests"], [...watch, "create"]),
  rule("certificates.k8s.io", ["clustertrustbundles"], watch),
  rule("certificates.k8s.io", ["podcertificaterequests"], [...watch, "create"]),
  rule("apiextensions.k8s.io", ["customresourcedefinitions"], [...watch, "create", "patch"]),
  rule("kip.elotl.co", ["cells"], ["get", ...watch, "create", "patch", "delete"]),
  rule("kip.elotl.co", ["cells/status"], ["patch"]),
];

/** What kip needs for Secrets, ConfigMaps and tokens of its pods where it does not act as their node. */
const referenceRules: readonly PolicyRule[] = [
  rule("", ["configmaps", "secrets"], ["get", ...watch]),
  rule("", ["serviceaccounts/token"], ["create"]),
];

/**
 * What kip needs to act as its virtual node with `--act-as-node`: the Node authorizer then lets it have the Secrets, ConfigMaps and
 * tokens of the node's own pods alone.
 */
export function nodeUserRules(nodeName: string): readonly PolicyRule[] {
  const named = (resource: string, name: string): PolicyRule => ({
    ...rule("", [resource], ["impersonate"]),
    resourceNames: [name],
  });
  return [named("users", `system:node:${nodeName}`), named("groups", "system:nodes")];
}

/** What kip does in its own namespace: it keeps the authority of its cells there. */
export const kipNamespaceRules: readonly PolicyRule[] = [rule("", ["secrets"], ["get", "create"])];

/**
 * The objects that a new control plane needs before kip can log in, as one `List`.
 *
 * @param actsAsNode the virtual node as which kip reads what pods refer to; undefined: with its own rights
 */
export function startingObjects(actsAsNode: string | undefined): string {
  const forPods = actsAsNode === undefined ? referenceRules : nodeUserRules(actsAsNode);
  const items = [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: kipNamespace } },
    role("ClusterRole", { name: kipUser }, [...kipRules, ...forPods]),
    binding("ClusterRoleBinding", { name: kipUser }, { role: kipUser, user: kipUser }),
    role("Role", { name: kipUser, namespace: kipNamespace }, kipNamespaceRules),
    binding(
      "RoleBinding",
      { name: kipUser, namespace: kipNamespace },
      { role: kipUser, user: kipUser },
    ),
    // The API server may use every part of a kubelet's API, and nothing else.
    binding(
      "ClusterRoleBinding",
      { name: "kip-local-kubelet-client" },
      { role: "system:kubelet-api-admin", user: kubeletClientUser },
    ),
  ];
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

function rule(group: string, resources: readonly string[], verbs: readonly string[]): PolicyRule {
  return { apiGroups: [group], resources, verbs };
}

interface ObjectName {
  readonly name: string;
  readonly namespace?: string;
}

function role(kind: "Role" | "ClusterRole", metadata: ObjectName, rules: readonly PolicyRule[]) {
  return { apiVersion: "rbac.authorization.k8s.io/v1", kind, metadata, rules };
}

function binding(
  kind: "RoleBinding" | "ClusterRoleBinding",
  metadata: ObjectName,
  { role: name, user }: { readonly role: string; readonly user: string },
) {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind,
    metadata,
    roleRef: {
      apiGroup: "rbac.authorization.k8s.io",
      kind: kind === "RoleBinding" ? "Role" : "ClusterRole",
      name,
    },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user }],
  };
}
