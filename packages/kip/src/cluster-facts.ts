import { isIP } from "node:net";
import { isNotFound, paths, type ApiClient, type KubeObject } from "@kip/k8s-client";
import { CellStore } from "./store/cell-store.ts";

/**
 * Installs the Cell resource ahead of time. The API server holds back the first objects of a new resource for two seconds;
 * the creator of a cluster can wait for that while it does something else.
 */
export async function installCells(client: ApiClient): Promise<void> {
  await new CellStore(client).ensureCrd();
}

/**
 * ID of this cluster, and of the installation unless that is configured: the UID of the kube-system namespace, so that it needs
 * no store of its own.
 * Two clusters never share it, and a kip that moves to another machine keeps it.
 */
export async function readClusterID(client: ApiClient): Promise<string> {
  const namespace = await client.get<KubeObject>(paths.namespaces("kube-system"));
  return namespace.metadata.uid;
}

/**
 * The addresses of the cluster's DNS service `kube-system/kube-dns`, as in the original; none if there is no such service
 * or it is headless.
 */
export async function findClusterDns(client: ApiClient): Promise<readonly string[]> {
  try {
    const { spec } = await client.get<{ spec?: { clusterIP?: string } }>(
      paths.services("kube-system", "kube-dns"),
    );
    const address = spec?.clusterIP ?? "";
    return isIP(address) === 0 ? [] : [address];
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}
