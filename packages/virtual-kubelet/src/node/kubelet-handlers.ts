import type { KubeletHandlers } from "../kubelet-api/index.ts";
import type { PodProvider } from "../pod-provider.ts";
import type { PodController } from "../pods/pod-controller.ts";
import { boundOptionalCalls } from "../providers/optional-calls.ts";
import { isFinished } from "../pods/pod-changes.ts";
import type { NodeIntervals } from "./node-options.ts";
import type { NotReady } from "./node-status.ts";

/** What the kubelet API of a node shows. */
export interface KubeletHandlersNeeds {
  readonly nodeName: string;
  readonly provider: PodProvider;
  readonly pods: PodController;
  readonly intervals: NodeIntervals;
  /** Why the provider cannot work now. */
  readonly problem: () => NotReady | undefined;
}

/** The answers of a node's kubelet API, by its pods and its provider. */
export function kubeletHandlers(needs: KubeletHandlersNeeds): KubeletHandlers {
  const { nodeName, provider, pods, intervals } = needs;
  return {
    nodeName,
    pods: () => pods.list(),
    runningPods: async () => {
      const kept = await provider.list();
      // Of a pod that has ended a provider may have the log still.
      return kept.flatMap(({ uid }) => pods.byUid(uid) ?? []).filter((pod) => !isFinished(pod));
    },
    findPod: (namespace, name, uid) => pods.find(namespace, name, uid),
    checkHealth: () => {
      const problem = needs.problem();
      if (problem) throw new Error(`${problem.reason}: ${problem.message}`);
    },
    config: () => ({
      nodeStatusUpdateFrequency: `${intervals.pingMs / 1000}s`,
      nodeStatusReportFrequency: `${intervals.statusMs / 1000}s`,
      nodeLeaseDurationSeconds: intervals.leaseDurationMs / 1000,
    }),
    ...boundOptionalCalls(provider),
  };
}
