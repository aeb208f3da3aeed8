import type { SharedControlPlane } from "./shared-control-plane.ts";

/** A kubeconfig for a client with a token, such as a service account. */
export function tokenKubeconfig(
  { server, ca }: Pick<SharedControlPlane, "server" | "ca">,
  token: string,
): string {
  const authority = Buffer.from(ca).toString("base64");
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server, "certificate-authority-data": authority } }],
    users: [{ name: "u", user: { token } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
}
