import type { KubeletHandlers } from "../kubelet-api/index.ts";
import type { PodProvider } from "../pod-provider.ts";
import type { PodController } from "../pods/pod-controller.ts";
import { boundOptionalCalls } from "../providers/optional-calls.ts";
import { isFinished } from "../pods/pod-facts.ts";
import type { NodeIntervals } from "./node-options.ts";
import type { NotReady } from "./node-status.ts";

/** Options of {@link kubeletHandlers}. */
export interface KubeletHandlersOptions {
  readonly nodeName: string;
  readonly provider: PodProvider;
  readonly pods: PodController;
  readonly intervals: NodeIntervals;
  /** Why the provider cannot work at the moment. */
  readonly problem: () => NotReady | undefined;
}

/** Creates the handlers of a node's kubelet API from its pods and its provider. */
export function kubeletHandlers(options: KubeletHandlersOptions): KubeletHandlers {
  const { nodeName, provider, pods, intervals } = options;
  return {
    nodeName,
    pods: () => pods.list(),
    runningPods: async () => {
      const kept = await provider.list();
      // A provider may still have the log of a finished pod.
      return kept.flatMap(({ uid }) => pods.byUid(uid) ?? []).filter((pod) => !isFinished(pod));
    },
    findPod: (namespace, name, uid) => pods.find(namespace, name, uid),
    checkHealth: () => {
      const problem = options.problem();
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
