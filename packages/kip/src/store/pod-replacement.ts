import { untilAborted, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  ignoreNotFound,
  namespaced,
  paths,
  type ApiClient,
  type Informer,
  type KubeObject,
  type Labels,
} from "@kip/k8s-client";
import type { OwnerReference, Pod } from "@kip/k8s-types";
import type { LabelSelector } from "@kip/k8s-types/network";
import type { PodRef } from "../state/cell-state.ts";
import { evictPod } from "./evict-pod.ts";

/** What {@link PodReplacement} works with. */
export interface PodReplacementOptions {
  readonly client: ApiClient;
  /** Client with which to evict. @default `client` */
  readonly nodeClient?: ApiClient | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The fields of a ReplicaSet or ReplicationController that are read. */
interface PodOwner extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    /** Plain labels for a ReplicationController. */
    readonly selector: LabelSelector | Labels;
  };
}

const replicaSets = namespaced("/apis/apps/v1", "replicasets");
const replicationControllers = namespaced("/api/v1", "replicationcontrollers");

/** The pods of one owner, shared by all waiters for replacements. */
interface OwnerWatch {
  readonly pods: Informer<Pod & KubeObject>;
  readonly done: AbortController;
  /** Resolves with the next change of a pod. */
  changed: PromiseWithResolvers<void>;
  pendingCheck: Promise<OwnerState> | undefined;
  waiters: number;
}

/** The pods that an owner has and wants. */
interface OwnerState {
  /** UIDs of its ready pods. */
  readonly ready: ReadonlySet<string>;
  readonly wanted: number;
}

/** Makes owners replace their pods. */
export class PodReplacement {
  readonly #options: PodReplacementOptions;
  /** By owner UID. A cloud may reclaim the machines of hundreds of its pods together. */
  readonly #watches = new Map<string, OwnerWatch>();

  constructor(options: PodReplacementOptions) {
    this.#options = options;
  }

  /**
   * Requests the eviction of a pod. A pod that is gone counts as evicted. Repeating it has no effect.
   *
   * @throws {K8sError} `K8S_TOO_MANY_REQUESTS` if a PodDisruptionBudget currently forbids it
   */
  async evict(ref: PodRef, graceSeconds: number): Promise<void> {
    const { client, nodeClient = client } = this.#options;
    await evictPod(nodeClient, ref, { graceSeconds, reader: client });
  }

  /**
   * Resolves when the owner has as many ready pods as it wants, without this one and those that are being deleted, or when the
   * owner is gone.
   *
   * @throws the signal's reason
   */
  async ready(ref: PodRef, owner: OwnerReference, signal: AbortSignal): Promise<void> {
    const found = await this.#read(ref, owner);
    if (!found) return;
    const watch = this.#watches.get(owner.uid) ?? this.#watch(ref, owner, found);
    watch.waiters++;
    try {
      await untilAborted(watch.pods.synced, signal);
      for (;;) {
        const changed = watch.changed.promise;
        const { ready, wanted } = await this.#ownerState(ref, owner, watch);
        if (ready.size - (ready.has(ref.uid) ? 1 : 0) >= wanted) return;
        await untilAborted(changed, signal);
      }
    } finally {
      if (--watch.waiters === 0) {
        watch.done.abort();
        this.#watches.delete(owner.uid);
      }
    }
  }

  #watch({ namespace }: PodRef, { uid }: OwnerReference, owner: PodOwner): OwnerWatch {
    const done = new AbortController();
    const watch: OwnerWatch = {
      pods: createInformer<Pod & KubeObject>({
        ...this.#options,
        path: paths.pods(namespace),
        query: { labelSelector: selectorText(owner) },
        onEvent: () => {
          watch.changed.resolve();
          watch.changed = Promise.withResolvers();
        },
        signal: done.signal,
      }),
      done,
      changed: Promise.withResolvers(),
      pendingCheck: undefined,
      waiters: 0,
    };
    this.#watches.set(uid, watch);
    return watch;
  }

  /** One check for all waiters. The pods are counted at its end, so that no earlier change is missed. */
  async #ownerState(
    { namespace }: PodRef,
    owner: OwnerReference,
    watch: OwnerWatch,
  ): Promise<OwnerState> {
    watch.pendingCheck ??= this.#read({ namespace }, owner)
      .then((found) => ({
        wanted: found ? (found.spec.replicas ?? 1) : 0,
        ready: readyPodsOf(owner, watch.pods.list()),
      }))
      .finally(() => (watch.pendingCheck = undefined));
    return await watch.pendingCheck;
  }

  async #read(
    { namespace }: Pick<PodRef, "namespace">,
    { kind, name, uid }: OwnerReference,
  ): Promise<PodOwner | undefined> {
    const path = kind === "ReplicaSet" ? replicaSets : replicationControllers;
    const found = await ignoreNotFound(this.#options.client.get<PodOwner>(path(namespace, name)));
    return found?.metadata.uid === uid ? found : undefined;
  }
}

/** UIDs of the owner's pods that are ready and are not being deleted. */
function readyPodsOf(owner: OwnerReference, pods: readonly Pod[]): ReadonlySet<string> {
  return new Set(
    pods.filter((pod) => isReadyPodOf(pod, owner)).map(({ metadata }) => metadata.uid),
  );
}

function isReadyPodOf({ metadata, status }: Pod, { uid }: OwnerReference): boolean {
  const isOwned = metadata.ownerReferences?.some((each) => each.uid === uid) ?? false;
  const isReady = status?.conditions?.some(
    ({ type, status: value }) => type === "Ready" && value === "True",
  );
  return isOwned && metadata.deletionTimestamp === undefined && isReady === true;
}

/** The owner's selector in the form of a query. */
function selectorText({ kind, spec: { selector } }: PodOwner): string {
  const isLabels = kind === "ReplicationController";
  const { matchLabels = {}, matchExpressions = [] } = isLabels
    ? { matchLabels: selector as Labels } // depends on the kind
    : (selector as LabelSelector);
  return [
    ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
    ...matchExpressions.map(({ key, operator, values = [] }) => {
      if (operator === "Exists") return key;
      if (operator === "DoesNotExist") return `!${key}`;
      return `${key} ${operator.toLowerCase()} (${values.join(",")})`;
    }),
  ].join(",");
}
