import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { silentLogger, systemClock } from "@kip/base";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";

/** Where the cluster of this run lives: beside, not instead of, one that a person has started. */
export const folder = mkdtempSync(path.join(tmpdir(), "kip-bench-"));
process.env["KIP_E2E_DIR"] = folder;
const local = await import("../e2e/cluster.ts");

/** Runs `kip` with a command and flags, for the cluster of this run. */
export const { kipCommand, upFlags, clusterFlags, machineProcesses, providerProcess } = local;

/** Works with a client of the cluster, which is up, and takes it down. */
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

/** Removes what is left of the cluster. */
export async function removeCluster(): Promise<void> {
  await kipCommand("down", ...clusterFlags);
  rmSync(folder, { recursive: true, force: true });
}
