import { kipUser, kubeletClientUser } from "../certificates/control-plane-certificates.ts";

const watch = ["list", "watch"] as const;

/** Namespace for kip's own objects. */
const kipNamespace = "kip-system";
/** Namespace for the Leases of nodes, and for those of leader election between replicas. */
export const leaseNamespace = "kube-node-lease";

/** One rule of a role, as in the API group `rbac.authorization.k8s.io`. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** Kip's cluster-wide rights, for any node name. `kip cleanup` deletes Nodes and Leases as an administrator. */
const commonRules: readonly PolicyRule[] = [
  rule("", ["nodes"], ["get", ...watch]),
  rule("", ["pods"], ["get", ...watch]),
  rule("", ["replicationcontrollers"], ["get"]),
  rule("apps", ["replicasets"], ["get"]),
  rule("", ["services", "namespaces"], ["get", ...watch]),
  rule("", ["serviceaccounts"], ["get"]),
  rule("", ["events"], ["create", "patch"]),
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
  rule("certificates.k8s.io", ["clustertrustbundles"], watch),
  rule("apiextensions.k8s.io", ["customresourcedefinitions"], watch),
  // Server-side apply names the object even when it creates it.
  rule(
    "apiextensions.k8s.io",
    ["customresourcedefinitions"],
    ["create", "patch"],
    ["cells.kip.elotl.co"],
  ),
  rule("kip.elotl.co", ["cells"], ["get", ...watch, "create", "patch", "delete"]),
  rule("kip.elotl.co", ["cells/status"], ["patch"]),
];

/** Additional rights that kip needs if it does not act as its node. */
const ownRules: readonly PolicyRule[] = [
  rule("", ["nodes"], ["create"]),
  rule("certificates.k8s.io", ["certificatesigningrequests"], [...watch, "create"]),
  rule("", ["configmaps", "secrets"], ["get", ...watch]),
  rule("", ["serviceaccounts/token"], ["create"]),
  rule("certificates.k8s.io", ["podcertificaterequests"], [...watch, "create"]),
  rule("", ["pods"], ["delete"]),
  rule("", ["pods/status"], ["patch"]),
  rule("", ["pods/eviction"], ["create"]),
];

/** All of kip's rights, by scope. */
export interface KipRoles {
  readonly cluster: readonly PolicyRule[];
  /** In kip's own namespace, which holds the certificate authority of its cells. */
  readonly own: readonly PolicyRule[];
  /** In {@link leaseNamespace}. */
  readonly leases: readonly PolicyRule[];
}

/**
 * Kip's rights. The manifests in `deploy/` are also made from them.
 *
 * @param actsAsNode the virtual node that kip acts as (`--act-as-node`). The API server then gives it access only to the
 * Secrets, ConfigMaps, tokens and certificates of that node's pods, and lets it change only these pods. Kip creates no other
 * node, and changes no other node or Lease. Undefined: kip uses its own rights, for a node with any name
 */
export function kipRoles(actsAsNode: string | undefined): KipRoles {
  const only = actsAsNode === undefined ? undefined : [actsAsNode];
  const leaseNames = only?.flatMap((node) => [node, `${node}.kip`]);
  const asNode =
    actsAsNode === undefined
      ? ownRules
      : [
          rule("", ["users"], ["impersonate"], [`system:node:${actsAsNode}`]),
          rule("", ["groups"], ["impersonate"], ["system:nodes"]),
        ];
  return {
    // The rules that name the node come first, because docs/install.md patches them by index.
    cluster: [rule("", ["nodes", "nodes/status"], ["patch"], only), ...asNode, ...commonRules],
    own: [
      // deploy/kustomize/base/admission-policy.yaml limits which ones it may create, because a Secret may be a Helm release or
      // a token.
      rule("", ["secrets"], ["get"], ["kip-cell-ca"]),
      rule("", ["secrets"], ["create"]),
    ],
    leases: [
      rule("coordination.k8s.io", ["leases"], ["update"], leaseNames),
      rule("coordination.k8s.io", ["leases"], ["get", ...watch, "create"]),
    ],
  };
}

/**
 * The objects that a new control plane needs before kip can connect, as one `List`.
 *
 * @param actsAsNode the virtual node that kip acts as; undefined: kip uses its own rights
 */
export function startingObjects(actsAsNode: string | undefined): string {
  const { cluster, own, leases } = kipRoles(actsAsNode);
  const inNamespace = (namespace: string, rules: readonly PolicyRule[]) => [
    role("Role", { name: kipUser, namespace }, rules),
    binding("RoleBinding", { name: kipUser, namespace }, { role: kipUser, user: kipUser }),
  ];
  const items = [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: kipNamespace } },
    role("ClusterRole", { name: kipUser }, cluster),
    binding("ClusterRoleBinding", { name: kipUser }, { role: kipUser, user: kipUser }),
    ...inNamespace(kipNamespace, own),
    ...inNamespace(leaseNamespace, leases),
    // The API server may use all parts of a kubelet's API, and nothing else.
    binding(
      "ClusterRoleBinding",
      { name: "kip-local-kubelet-client" },
      { role: "system:kubelet-api-admin", user: kubeletClientUser },
    ),
  ];
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

function rule(
  group: string,
  resources: readonly string[],
  verbs: readonly string[],
  resourceNames?: readonly string[],
): PolicyRule {
  return { apiGroups: [group], resources, verbs, ...(resourceNames && { resourceNames }) };
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
