import { isIP } from "node:net";
import { isNotFound, paths, type ApiClient, type KubeObject } from "@kip/k8s-client";
import { CellStore } from "./store/cell-store.ts";

/**
 * Installs the Cell resource in advance. The API server delays the first objects of a new resource for two seconds. Whatever
 * creates a cluster can wait for that while it does other work.
 */
export async function installCells(client: ApiClient): Promise<void> {
  await new CellStore(client).ensureCrd();
}

/**
 * ID of this cluster, and of the installation unless that is configured: the UID of the kube-system namespace, so it does not
 * have to be stored. It is unique to the cluster, and the same for a kip that moves to another machine.
 */
export async function readClusterID(client: ApiClient): Promise<string> {
  const namespace = await client.get<KubeObject>(paths.namespaces("kube-system"));
  return namespace.metadata.uid;
}

/**
 * The addresses of the cluster's DNS service `kube-system/kube-dns`, as in the original. Empty if the service does not exist or
 * is headless.
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
