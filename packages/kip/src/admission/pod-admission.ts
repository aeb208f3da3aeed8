import type { Pod } from "@kip/k8s-types";
import { VirtualKubeletError, type NodeFacts, type ProviderCallbacks } from "@kip/virtual-kubelet";
import { admitPod } from "./admit-pod.ts";
import { TakenHostPorts } from "./host-ports.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";
import { rejectRuntimeClass, type HandlerLookup } from "./runtime-class.ts";

/** Options of {@link PodAdmission}. */
export interface PodAdmissionOptions {
  readonly handlerOf: HandlerLookup;
  /** The current value of the kubelet setting with this name. @default none */
  readonly allowedUnsafeSysctls?: (() => readonly string[]) | undefined;
  /** The node's size, and the labels that kip sets. */
  readonly nodeFacts: () => NodeFacts;
  /** Undefined before the virtual kubelet is listening. */
  readonly callbacks: () => ProviderCallbacks | undefined;
  /** The pods that have a worker and have not ended. */
  readonly runningPods: () => readonly Pod[];
  /** Number of workers, at least that of {@link PodAdmissionOptions.runningPods}. */
  readonly workerCount: () => number;
}

/** Admits pods to the node. Admitted pods that have no worker yet also count as the node's pods. */
export class PodAdmission {
  readonly #options: PodAdmissionOptions;
  /** By UID. */
  readonly #admitted = new Map<string, Pod>();
  readonly #takenPorts = new TakenHostPorts();

  constructor(options: PodAdmissionOptions) {
    this.#options = options;
  }

  /** The pods that were admitted and have no worker yet. */
  get admitted(): readonly Pod[] {
    return [...this.#admitted.values()];
  }

  /** Call this when the pod gets a worker or is removed. */
  forget(podUid: string): void {
    this.#admitted.delete(podUid);
  }

  /**
   * Admits the pod if {@link admitPod} accepts it and cells support its runtime class.
   *
   * @throws {VirtualKubeletError} code `VK_INVALID_POD` with the kubelet's `reason`, if the node does not admit the pod
   * @throws errors of the runtime class lookup
   */
  async admit(pod: Pod): Promise<void> {
    const rejection = await this.#judge(pod);
    if (!rejection) return void this.#admitted.set(pod.metadata.uid, pod);
    const { reason, message } = rejection;
    throw new VirtualKubeletError("VK_INVALID_POD", message, { reason });
  }

  async #judge(pod: Pod): Promise<Rejection | undefined> {
    const { callbacks, nodeFacts, handlerOf } = this.#options;
    const watchedLabels = callbacks()?.nodeLabels?.();
    let labels = watchedLabels ?? nodeFacts().labels ?? {};
    const judge = () => admitPod(pod, this.#contextOf(pod, labels));
    let rejection = judge();
    const isUnregistered = !watchedLabels && !rejection && selectsNode(pod);
    if (rejection?.reason === "NodeAffinity" || isUnregistered) {
      // The scheduler may know newer labels than the watch has delivered, or the node is not registered yet. Like a kubelet,
      // read the Node.
      labels = (await callbacks()?.readNodeLabels?.()) ?? labels;
      rejection = judge();
    }
    if (rejection) return rejection;
    // Repeat the checks, because another pod may have been admitted during the lookup.
    return (await rejectRuntimeClass(pod, handlerOf)) ?? judge();
  }

  #contextOf(pod: Pod, labels: AdmissionContext["labels"]): AdmissionContext {
    const { nodeFacts, runningPods, workerCount, allowedUnsafeSysctls } = this.#options;
    const { capacity, allocatable = capacity } = nodeFacts();
    const { uid } = pod.metadata;
    return {
      labels,
      allocatable,
      otherPods: () =>
        [...runningPods(), ...this.#admitted.values()].filter((each) => each.metadata.uid !== uid),
      mostOtherPods: workerCount() + this.#admitted.size,
      takenPorts: this.#takenPorts,
      allowedUnsafeSysctls: allowedUnsafeSysctls?.(),
    };
  }
}

/** Whether the pod selects nodes, so that the node's labels matter. */
function selectsNode({ spec }: Pod): boolean {
  return spec.nodeSelector !== undefined || spec.affinity?.nodeAffinity !== undefined;
}
