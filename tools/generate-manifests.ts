// Makes what in deploy/ follows from the code: the Cell resource, kip's roles, and its policy of IAM for Terraform.
//   node tools/generate-manifests.ts            writes them
//   node tools/generate-manifests.ts --check    fails if they differ from what is committed
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { iamPolicy } from "@kip/cloud-aws/policy";
import { kipRoles, leaseNamespace, type PolicyRule } from "@kip/control-plane";
import { cellCrd } from "@kip/kip";
import { stringify } from "yaml";

const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });

const manifests: Readonly<Record<string, readonly object[]>> = {
  "kustomize/base/crd.yaml": [cellCrd],
  "kustomize/base/roles.yaml": roles("kip", "kip-system", "kip"),
  // Helm creates it first, and does not delete it, because that would delete all Cells.
  "helm/kip/crds/cells.yaml": [cellCrd],
  "helm/kip/templates/roles.yaml": roles(
    "{{ .Release.Name }}",
    "{{ .Release.Namespace }}",
    "{{ .Values.nodeName }}",
  ),
};
/** JSON has no comments. The module replaces these values. */
const policy = iamPolicy({ region: "${region}", subnetIDs: ["${subnet_a}", "${subnet_b}"] });
const outputs: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries(manifests).map(([name, objects]) => [name, documentsText(objects)]),
  ),
  "terraform/aws/kip-policy.json.tftpl": `${JSON.stringify(policy, undefined, 2)}\n`,
};
for (const [name, text] of Object.entries(outputs)) {
  const file = `deploy/${name}`;
  if (!values.check) writeFileSync(file, text);
  else if (!existsSync(file) || readFileSync(file, "utf8") !== text) {
    console.error(`${file} is not up to date: run node tools/generate-manifests.ts`);
    process.exitCode = 1;
  }
}

function documentsText(objects: readonly object[]): string {
  const documents = objects.map((object) => stringify(object, { aliasDuplicateObjects: false }));
  return `# Made by tools/generate-manifests.ts\n${documents.join("---\n")}`;
}

/** Kip's permissions: in the whole cluster, in its own namespace, and in the namespace of the nodes' Leases. */
function roles(shared: string, namespace: string, nodeName: string): readonly object[] {
  const { cluster, own, leases } = kipRoles(nodeName);
  return [
    role("ClusterRole", { name: shared }, cluster),
    role("Role", { name: "kip", namespace }, own),
    // It needs another name: if an overlay sets `namespace`, kustomize would take it for the Role above.
    role("Role", { name: `${shared}-leases`, namespace: leaseNamespace }, leases),
  ];
}

function role(kind: "ClusterRole" | "Role", metadata: object, rules: readonly PolicyRule[]) {
  return { apiVersion: "rbac.authorization.k8s.io/v1", kind, metadata, rules };
}
