import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { silentLogger, systemClock } from "@kip/base";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";

/** State folder of this run's cluster, which is separate from a cluster that a user has started. */
export const folder = mkdtempSync(path.join(tmpdir(), "kip-bench-"));
process.env["KIP_E2E_DIR"] = folder;
const local = await import("../e2e/cluster.ts");

/** Runs a `kip` command for this run's cluster. */
export const { kipCommand, upFlags, clusterFlags, machineProcesses, providerProcess } = local;

/** Runs `work` with a client of the running cluster, and then removes the cluster. */
export async function useCluster<T>(work: (client: ApiClient) => Promise<T>): Promise<T> {
  const shown = await kipCommand("status", ...clusterFlags, "--show=kubeconfig");
  const config = await loadKubeConfig({ path: shown.stdout.trim() });
  const options = { userAgent: "bench", logger: silentLogger, clock: systemClock };
  const client = createApiClient(config, options);
  try {
    return await work(client);
  } finally {
    client.close();
    await kipCommand("down", ...clusterFlags);
  }
}

/** Removes what remains of the cluster. */
export async function removeCluster(): Promise<void> {
  await kipCommand("down", ...clusterFlags);
  rmSync(folder, { recursive: true, force: true });
}
