import { isIP } from "node:net";
import type { CertificateAuthority, KeyPair } from "@kip/pki";
import { type CertificateFiles, type LeafOptions } from "./certificate-files.ts";

/** The certificates and keys of a control plane's programs. */
export interface ControlPlaneCertificates {
  readonly cluster: CertificateAuthority;
  readonly admin: KeyPair;
  readonly kip: KeyPair;
  readonly controllerManager: KeyPair;
  readonly scheduler: KeyPair;
  readonly files: {
    readonly clusterCa: { readonly certificate: string; readonly key: string };
    readonly apiServer: { readonly certificate: string; readonly key: string };
    readonly kubeletClient: { readonly certificate: string; readonly key: string };
    readonly frontProxyCa: { readonly certificate: string; readonly key: string };
    readonly frontProxyClient: { readonly certificate: string; readonly key: string };
    readonly tokenKey: { readonly publicPath: string; readonly keyPath: string };
  };
}

/** The API server's user name towards kubelets, bound to `system:kubelet-api-admin`. */
export const kubeletClientUser = "kube-apiserver-kubelet-client";

/** Kip's own user name. */
export const kipUser = "kip";

/**
 * Reads or creates the certificates of a control plane, in kubeadm's layout: one authority for servers and clients, and one for
 * the aggregation layer's proxy.
 *
 * @param serverNames host names and addresses of the API server
 */
export async function controlPlaneCertificates(
  files: CertificateFiles,
  serverNames: readonly string[],
): Promise<ControlPlaneCertificates> {
  const cluster = await files.authority("ca", "kip-local");
  const frontProxy = await files.authority("front-proxy-ca", "kip-local-front-proxy");
  const client = (name: string, subject: Pick<LeafOptions, "commonName" | "organizations">) =>
    files.leaf(name, cluster, { ...subject, usages: ["client"] });

  await files.leaf("apiserver", cluster, {
    commonName: "kube-apiserver",
    dnsNames: serverNames.filter((name) => isIP(name) === 0),
    ipAddresses: serverNames.filter((name) => isIP(name) !== 0),
    usages: ["server"],
  });
  await client("apiserver-kubelet-client", { commonName: kubeletClientUser });
  await files.leaf("front-proxy-client", frontProxy, {
    commonName: "front-proxy-client",
    usages: ["client"],
  });
  return {
    cluster,
    admin: await client("admin", {
      commonName: "kip-local-admin",
      organizations: ["system:masters"],
    }),
    kip: await client("kip", { commonName: kipUser }),
    controllerManager: await client("controller-manager", {
      commonName: "system:kube-controller-manager",
    }),
    scheduler: await client("scheduler", { commonName: "system:kube-scheduler" }),
    files: {
      clusterCa: files.paths("ca"),
      apiServer: files.paths("apiserver"),
      kubeletClient: files.paths("apiserver-kubelet-client"),
      frontProxyCa: files.paths("front-proxy-ca"),
      frontProxyClient: files.paths("front-proxy-client"),
      tokenKey: await files.tokenKey("service-accounts"),
    },
  };
}
