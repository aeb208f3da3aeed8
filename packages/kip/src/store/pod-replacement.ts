import { untilAborted, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  ignoreNotFound,
  namespaced,
  paths,
  type ApiClient,
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
  /** Evicts. @default `client` */
  readonly nodeClient?: ApiClient | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The parts of a ReplicaSet or ReplicationController that are read. */
interface PodOwner extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    /** Labels alone, if it is of a ReplicationController. */
    readonly selector: LabelSelector | Labels;
  };
}

const replicaSets = namespaced("/apis/apps/v1", "replicasets");
const replicationControllers = namespaced("/api/v1", "replicationcontrollers");

/** Has pods replaced by their owners. */
export class PodReplacement {
  readonly #options: PodReplacementOptions;

  constructor(options: PodReplacementOptions) {
    this.#options = options;
  }

  /**
   * Asks for the eviction of a pod. One that is gone counts as evicted; evicting it twice changes nothing.
   *
   * @throws {K8sError} `K8S_TOO_MANY_REQUESTS` if a PodDisruptionBudget forbids it now
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
    const found = await this.#owner(ref, owner);
    if (!found) return;
    const done = new AbortController();
    let changed = Promise.withResolvers<void>();
    const pods = createInformer<Pod & KubeObject>({
      ...this.#options,
      path: paths.pods(ref.namespace),
      query: { labelSelector: selectorText(found) },
      onEvent: () => changed.resolve(),
      signal: AbortSignal.any([signal, done.signal]),
    });
    try {
      await pods.synced;
      while (!(await this.#isReplaced(ref, owner, pods.list()))) {
        await untilAborted(changed.promise, signal);
        changed = Promise.withResolvers();
      }
    } finally {
      done.abort();
    }
  }

  async #isReplaced(ref: PodRef, owner: OwnerReference, pods: readonly Pod[]): Promise<boolean> {
    const found = await this.#owner(ref, owner);
    const ready = pods.filter((pod) => pod.metadata.uid !== ref.uid && isReadyPodOf(pod, owner));
    return ready.length >= (found ? (found.spec.replicas ?? 1) : 0);
  }

  async #owner(
    { namespace }: PodRef,
    { kind, name, uid }: OwnerReference,
  ): Promise<PodOwner | undefined> {
    const path = kind === "ReplicaSet" ? replicaSets : replicationControllers;
    const found = await ignoreNotFound(this.#options.client.get<PodOwner>(path(namespace, name)));
    return found?.metadata.uid === uid ? found : undefined;
  }
}

function isReadyPodOf({ metadata, status }: Pod, { uid }: OwnerReference): boolean {
  const isOwned = metadata.ownerReferences?.some((each) => each.uid === uid) ?? false;
  const isReady = status?.conditions?.some(
    ({ type, status: value }) => type === "Ready" && value === "True",
  );
  return isOwned && metadata.deletionTimestamp === undefined && isReady === true;
}

/** The owner's selector as the API server takes it in a query. */
function selectorText({ kind, spec: { selector } }: PodOwner): string {
  const isLabels = kind === "ReplicationController";
  const { matchLabels = {}, matchExpressions = [] } = isLabels
    ? { matchLabels: selector as Labels } // by its kind
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
