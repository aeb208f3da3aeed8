import type { ApiClient } from "@kip/k8s-client";
import { hasEnded, type PodRef } from "../state/cell-state.ts";
import type { Cell } from "../state/cell.ts";
import { readPod } from "../store/pod-in-api.ts";

/** Options of {@link freeFinishedPods}. */
export interface FinishedPodsOptions {
  readonly client: ApiClient;
  readonly cells: readonly Cell[];
  readonly provider: {
    hasWorker(podUid: string): boolean;
    freeCell(podRef: PodRef): void;
  };
}

/**
 * Frees the cells of pods that finished when kip stopped before it ended their cells. A finished pod is not applied again, so
 * its cell would cost money until the pod is deleted.
 */
export async function freeFinishedPods(options: FinishedPodsOptions): Promise<void> {
  const { client, cells, provider } = options;
  for (const { podRef } of cells.map(({ spec }) => spec)) {
    // After a start of kip, most pods get their workers while others are read.
    if (provider.hasWorker(podRef.uid)) continue;
    const pod = await readPod(client, podRef);
    // A pod that is being deleted will be removed soon.
    if (!hasEnded(pod?.status) || pod?.metadata.deletionTimestamp !== undefined) continue;
    if (!provider.hasWorker(podRef.uid)) provider.freeCell(podRef);
  }
}
