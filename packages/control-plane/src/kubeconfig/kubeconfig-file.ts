import type { KeyPair } from "@kip/pki";

/** The content of a kubeconfig. */
export interface KubeconfigContent {
  readonly server: string;
  /** The server's certificate authority, PEM. */
  readonly ca: string;
  readonly user: string;
  readonly identity: KeyPair;
}

/** A kubeconfig with one cluster and one user, as JSON, which is also YAML. */
export function kubeconfigText(content: KubeconfigContent): string {
  const base64 = (pem: string): string => Buffer.from(pem).toString("base64");
  const name = "kip-local";
  const document = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name,
        cluster: { server: content.server, "certificate-authority-data": base64(content.ca) },
      },
    ],
    users: [
      {
        name: content.user,
        user: {
          "client-certificate-data": base64(content.identity.certificate),
          "client-key-data": base64(content.identity.key),
        },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: content.user } }],
    "current-context": name,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
