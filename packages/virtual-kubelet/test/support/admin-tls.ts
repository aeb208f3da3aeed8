import type { SharedControlPlane } from "@kip/control-plane/testing";
import type { ClientTls } from "../kubelet-api-fixture.ts";

interface Kubeconfig {
  readonly users: readonly { readonly user: Readonly<Record<string, string>> }[];
}

/** How the administrator of a test's control plane shows who they are. */
export async function adminTls(controlPlane: SharedControlPlane): Promise<ClientTls> {
  const view = ["config", "view", "--raw", "--minify", "-o", "json"];
  const { users } = JSON.parse(await controlPlane.kubectl(view)) as Kubeconfig;
  const decoded = (key: string): string =>
    Buffer.from(users[0]?.user[key] ?? "", "base64").toString();
  return {
    ca: controlPlane.ca,
    cert: decoded("client-certificate-data"),
    key: decoded("client-key-data"),
  };
}
