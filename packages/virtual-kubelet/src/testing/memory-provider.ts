import { wireTime } from "@kip/k8s-client";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";
import type {
  NodeFacts,
  PodPresence,
  PodProvider,
  PodStatusUpdate,
  ProviderCallbacks,
  ResolvedPod,
} from "../pod-provider.ts";
import { podStatus, type ContainerRun } from "../status/pod-status.ts";

/** A call that a {@link MemoryProvider} received. */
export interface SeenCall {
  readonly call: "apply" | "remove" | "removeUnknown";
  readonly uid: string;
}

/** A provider in memory, for tests. Pods run as soon as they are applied. */
export class MemoryProvider implements PodProvider {
  /** Calls in order. */
  readonly calls: SeenCall[] = [];
  /** The last applied content, by UID. Tests may add pods. */
  readonly pods = new Map<string, ResolvedPod>();
  /** The last reported status, by UID, of existing pods. */
  readonly statuses = new Map<string, PodStatus>();
  /** Errors for the next calls with these names, one each. */
  readonly failures: Record<"apply" | "remove" | "list" | "ping", Error[]> = {
    apply: [],
    remove: [],
    list: [],
    ping: [],
  };
  /** The node's facts. After changing them, call {@link MemoryProvider.nodeChanged}. */
  facts: NodeFacts = {
    capacity: { cpu: "1000", memory: "4Ti", pods: "5000" },
    internalIp: "192.0.2.1",
  };
  /** Called for each apply and remove before it takes effect. Tests delay pods with it. */
  gate: (call: SeenCall) => Promise<void> = () => Promise.resolve();
  #callbacks: ProviderCallbacks | undefined;

  async start(callbacks: ProviderCallbacks): Promise<void> {
    this.#callbacks = callbacks;
  }

  async apply(resolved: ResolvedPod): Promise<void> {
    const uid = resolved.pod.metadata.uid;
    await this.#begin("apply", uid);
    const isNew = !this.pods.has(uid);
    this.pods.set(uid, resolved);
    if (isNew || resolved.pod.status?.phase !== "Running") this.report(uid, "Running");
  }

  async remove(pod: Pod): Promise<void> {
    const uid = pod.metadata.uid;
    await this.#begin("remove", uid);
    if (!this.pods.has(uid))
      throw new VirtualKubeletError("VK_NOT_FOUND", `Cannot remove pod ${uid}: unknown`);
    this.report(uid, "Succeeded");
    this.#drop(uid);
  }

  async presence(uid: string): Promise<PodPresence> {
    return this.pods.has(uid) ? "present" : "absent";
  }

  async list(): Promise<{ uid: string; namespace: string; name: string }[]> {
    throwNext(this.failures.list);
    return [...this.pods.values()].map(({ pod: { metadata } }) => ({
      uid: metadata.uid,
      namespace: metadata.namespace,
      name: metadata.name,
    }));
  }

  async removeUnknown(uid: string): Promise<void> {
    await this.#begin("removeUnknown", uid);
    this.#drop(uid);
  }

  async nodeFacts(): Promise<NodeFacts> {
    return this.facts;
  }

  async ping(_signal?: AbortSignal): Promise<void> {
    throwNext(this.failures.ping);
  }

  /** Reports that {@link MemoryProvider.facts} have changed. */
  nodeChanged(): void {
    this.#callbacks?.nodeChanged();
  }

  /** Reports a pod's status, with all containers running or ended with exit code 0 or 1. */
  report(
    uid: string,
    phase: "Running" | "Succeeded" | "Failed",
    extras: Pick<PodStatusUpdate, "annotations" | "isDeleted"> = {},
  ): void {
    const pod = this.pods.get(uid)?.pod;
    if (!pod) return;
    const status = this.#status(pod, phase);
    this.statuses.set(uid, status);
    this.#callbacks?.podStatus({ ...extras, uid, status });
  }

  /** Number of calls of one kind for a pod. */
  count(call: SeenCall["call"], uid?: string): number {
    return this.calls.filter((each) => each.call === call && (uid ?? each.uid) === each.uid).length;
  }

  #drop(uid: string): void {
    this.pods.delete(uid);
    this.statuses.delete(uid);
  }

  async #begin(call: SeenCall["call"], uid: string): Promise<void> {
    this.calls.push({ call, uid });
    await this.gate({ call, uid });
    if (call !== "removeUnknown") throwNext(this.failures[call]);
  }

  #status(pod: Pod, phase: "Running" | "Succeeded" | "Failed"): PodStatus {
    const nowMs = Date.now();
    const startedAtMs = Date.parse(pod.status?.startTime ?? wireTime(nowMs));
    const ended = { exitCode: phase === "Failed" ? 1 : 0, finishedAtMs: nowMs };
    const run: ContainerRun = { startedAtMs, ended: phase === "Running" ? undefined : ended };
    const { containers, ephemeralContainers = [] } = pod.spec;
    const runs = new Map([...containers, ...ephemeralContainers].map(({ name }) => [name, run]));
    return podStatus(pod, {
      runs,
      hostIp: this.facts.internalIp,
      podIp: "198.51.100.7",
      nowMs,
    });
  }
}

function throwNext(failures: Error[]): void {
  const failure = failures.shift();
  if (failure) throw failure;
}
