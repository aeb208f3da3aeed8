import { kipUser } from "../certificates/control-plane-certificates.ts";

/** Kip's user on a control plane of ours, and its account where the manifests in `deploy/` have installed it. */
export const kipUsers: readonly string[] = [kipUser, "system:serviceaccount:kip-system:kip"];

/** Has the API server record who asked what, of kip alone; a watch when it begins, other requests when they end. */
export function auditPolicy(): string {
  return JSON.stringify({
    apiVersion: "audit.k8s.io/v1",
    kind: "Policy",
    omitStages: ["RequestReceived"],
    rules: [{ level: "Metadata", users: kipUsers }, { level: "None" }],
  });
}
