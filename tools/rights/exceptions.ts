// Allowed differences between the tests and kip's roles, with reasons.
import { rightText, type Right } from "./compare-rights.ts";
import type { Use } from "./read-audit-log.ts";

const installTest = "packages/kip/test/install.int.test.ts";

/** Requests that are refused, by {@link rightText}. */
const refused: Readonly<Record<string, string>> = {
  "get secrets in elsewhere": `${installTest}: kip says what to apply where it may not keep its authority`,
  "create secrets in elsewhere": `${installTest}: as above`,
  "create namespaces":
    "packages/virtual-kubelet/test/node.int.test.ts: sees how the client reports a refusal",
  "list secrets": `${installTest}: sees that the account is refused`,
  "get secrets in default": `${installTest}: as above`,
  "create serviceaccounts/token in kube-system": `${installTest}: as above`,
  "get secrets in kip-system": `${installTest}: as above`,
  "patch nodes": `${installTest}: as above`,
  "patch nodes/status": `${installTest}: as above`,
  "patch customresourcedefinitions.apiextensions.k8s.io": `${installTest}: as above`,
  "update leases.coordination.k8s.io in kube-node-lease": `${installTest}: as above`,
  "patch pods/status in default": `${installTest}: as above`,
  "delete pods in default": `${installTest}: as above`,
  "create pods/eviction in default": `${installTest}: as above`,
  "create podcertificaterequests.certificates.k8s.io in default": `${installTest}: as above`,
  "create nodes": `${installTest}: as above`,
  "create certificatesigningrequests.certificates.k8s.io": `${installTest}: as above`,
  "list leases.coordination.k8s.io in kube-system": `${installTest}: as above`,
};

/** Permissions that no test needs, by {@link rightText}. */
const unused: Readonly<Record<string, string>> = {};

/**
 * Requests that kip makes with its own permissions where it does not act as its node. Only tests of packages do that, and their
 * roles allow it.
 */
const asNode: ReadonlySet<string> = new Set([
  "configmaps",
  "secrets",
  "serviceaccounts/token",
  "podcertificaterequests",
  "certificatesigningrequests",
  "nodes",
  "pods",
  "pods/status",
  "pods/eviction",
]);

/** Resources for which the manifests' roles have permissions for one node, `kip`. Other tests' roles allow any node name. */
const ofNode: ReadonlySet<string> = new Set(["nodes", "nodes/status", "leases", "users"]);

/** Why a request is expected although the roles do not allow it. Undefined if it is not. */
export function whyMissing(use: Use): string | undefined {
  if (!use.isAllowed) return refused[rightText(use)];
  if (ofNode.has(use.resource) && use.name !== undefined) return "for a node of another name";
  return asNode.has(use.resource) ? "made without --act-as-node" : undefined;
}

/** Why a permission is needed although no test used it. Undefined if it is not. */
export function whyUnused(right: Right): string | undefined {
  return unused[rightText(right)];
}
