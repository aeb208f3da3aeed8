import { hasCode } from "@kip/base";
import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { PodRef } from "../cell/cell-memory.ts";
import type { Cell } from "../cell/cell.ts";

/** What {@link freeFinishedPods} works with. */
export interface FinishedPodsOptions {
  readonly client: ApiClient;
  readonly cells: readonly Cell[];
  readonly provider: {
    isAtWork(podUid: string): boolean;
    freeCell(podRef: PodRef): void;
  };
}

/**
 * Frees the cells of pods that finished while their end was being worked on and kip ended: a finished
 * pod is not applied again, and its cell would cost money until somebody deletes the pod.
 */
export async function freeFinishedPods(options: FinishedPodsOptions): Promise<void> {
  const { client, provider } = options;
  const { cells } = options;
  for (const { spec } of cells.filter((cell) => !provider.isAtWork(cell.spec.podRef.uid))) {
    const { podRef } = spec;
    const pod = await readPod(client, podRef);
    const phase = pod?.metadata?.uid === podRef.uid ? pod.status?.phase : undefined;
    const isFinished = phase === "Succeeded" || phase === "Failed";
    // A pod that is being deleted is removed soon, if it is not already.
    if (!isFinished || pod?.metadata?.deletionTimestamp !== undefined) continue;
    if (!provider.isAtWork(podRef.uid)) provider.freeCell(podRef);
  }
}

async function readPod(client: ApiClient, podRef: PodRef): Promise<Pod | undefined> {
  try {
    return await client.get<Pod>(paths.pods(podRef.namespace, podRef.name));
  } catch (error) {
    if (hasCode(error, "K8S_NOT_FOUND")) return undefined;
    throw error;
  }
}
