import { kipUser } from "../certificates/control-plane-certificates.ts";

/** Kip's user on this project's control planes, and its service account from the manifests in `deploy/`. */
export const kipUsers: readonly string[] = [kipUser, "system:serviceaccount:kip-system:kip"];

/** An audit policy that records kip's requests only: a watch when it starts, and any other request when it ends. */
export function auditPolicy(): string {
  return JSON.stringify({
    apiVersion: "audit.k8s.io/v1",
    kind: "Policy",
    omitStages: ["RequestReceived"],
    rules: [{ level: "Metadata", users: kipUsers }, { level: "None" }],
  });
}
