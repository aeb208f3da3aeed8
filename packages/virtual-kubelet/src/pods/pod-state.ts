import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "../pod-provider.ts";
import { isFinished, mayStillRun, versionOf } from "./pod-facts.ts";
import { isRelevantChange } from "./relevant-change.ts";

/** The pod's object in the API. */
interface ApiState {
  /** The newest known version. */
  readonly pod: Pod;
  /** The version with which the next event of the watch is compared, to decide whether the provider must be called. */
  readonly compared: Pod;
  /** Whether the API server has deleted the object. */
  readonly isGone: boolean;
  /** Whether the object's deletion was completed. Other clients' finalizers may still keep it. */
  readonly isFinalized: boolean;
}

/** The content for the provider. */
interface ContentState {
  /** Number of changes that are relevant for the provider, from 1. */
  readonly revision: number;
  /** Newest revision that the provider has accepted. 0 before the first. */
  readonly handled: number;
  /** Whether the pod was rejected or has ended. It stays so, whatever changes before the API shows that. */
  readonly isOver: boolean;
  /** Whether this process has had the pod admitted. It is then not one that an earlier process has started. */
  readonly isAdmitted: boolean;
  /** The content that the provider last accepted. Undefined if there is none yet. */
  readonly applied: ResolvedPod | undefined;
  /** The pod's generation that was last passed to the provider. Before that, the one that its status is about. */
  readonly generation: number | undefined;
}

/** The provider's part of the state. */
interface ProviderState {
  /** Whether it can stop a pod and keep its logs. */
  readonly canFinish: boolean;
  /** Whether it has reported a status. The library then writes none of its own. */
  readonly hasReported: boolean;
  /** Whether its last status cannot be written, and it did not get the pod since. */
  readonly isStatusInvalid: boolean;
  /** Whether it last reported that the pod has ended. Nothing is running, and the logs are kept. */
  readonly isEnded: boolean;
  /** Whether the rest of the pod was stopped because the pod is terminal in the API. */
  readonly isStopped: boolean;
  /** Whether it has removed the pod permanently on its own. */
  readonly hasDeleted: boolean;
  /** Whether it has nothing left of the pod. */
  readonly isRemoved: boolean;
  /** Keys of the annotations from its reports. */
  readonly ownAnnotations: ReadonlySet<string>;
}

/** Everything that a pod's next step depends on. Only {@link reducePod} makes a new one. */
export interface PodState {
  readonly api: ApiState;
  readonly content: ContentState;
  readonly provider: ProviderState;
}

/** Everything that can happen to a pod. */
export type PodChange =
  /** A version of the object arrived, from the watch or in the response to a write. */
  | { readonly kind: "seen"; readonly pod: Pod; readonly source: "watch" | "write" }
  /** The API server has deleted the object. */
  | { readonly kind: "objectDeleted" }
  /** An object that the pod refers to has changed, or the provider has lost the pod. */
  | { readonly kind: "contentChanged" }
  /** The node decides whether it accepts this version of a pod that no provider has yet, or what it waits for. */
  | { readonly kind: "judged"; readonly generation: number | undefined }
  /** The node accepts the pod. */
  | { readonly kind: "admitted" }
  /** The pod is passed to the provider. It may report a status before it has accepted the pod. */
  | { readonly kind: "offered"; readonly generation: number | undefined }
  /** The provider has accepted this revision. */
  | { readonly kind: "applied"; readonly revision: number; readonly resolved: ResolvedPod }
  /** The provider can never run the pod. */
  | { readonly kind: "rejected" }
  /** The provider has reported a valid status. */
  | {
      readonly kind: "reported";
      readonly isEnd: boolean;
      /** Keys of the annotations in the report. */
      readonly annotations: readonly string[];
      readonly isDeleted: boolean;
    }
  /** The provider has reported a status that is invalid or that the API server refuses. */
  | { readonly kind: "statusInvalid" }
  /** The step `finish` is done. */
  | { readonly kind: "stopped" }
  /** The provider has nothing left of the pod, after the step `remove` or `forget`. */
  | { readonly kind: "removed" }
  /** The step `finalize` is done: the object is deleted or waits for other clients' finalizers. */
  | { readonly kind: "finalized" };

/** The state when a pod is first seen, possibly after a restart of the process. */
export function initialPodState(
  pod: Pod,
  { canFinish }: Pick<ProviderState, "canFinish">,
): PodState {
  return {
    api: { pod, compared: pod, isGone: false, isFinalized: false },
    content: {
      revision: 1,
      handled: 0,
      isOver: false,
      isAdmitted: false,
      applied: undefined,
      generation: undefined,
    },
    provider: {
      canFinish,
      hasReported: false,
      isStatusInvalid: false,
      // If its provider has reported the pod as ended, removing it would lose its logs.
      isEnded: isFinished(pod) && !canFinish && !mayStillRun(pod),
      isStopped: false,
      hasDeleted: false,
      isRemoved: false,
      ownAnnotations: new Set(),
    },
  };
}

/** The state after a change. The same object if nothing has changed. */
export function reducePod(state: PodState, change: PodChange): PodState {
  const { api, content, provider } = state;
  switch (change.kind) {
    case "seen":
      return change.source === "watch" ? watched(state, change.pod) : written(state, change.pod);
    case "objectDeleted":
      return { ...state, api: { ...api, isGone: true } };
    case "contentChanged":
      return { ...state, content: { ...content, revision: content.revision + 1 } };
    case "judged":
      return { ...state, content: { ...content, generation: change.generation } };
    case "admitted":
      return { ...state, content: { ...content, isAdmitted: true } };
    case "offered":
      return {
        ...state,
        content: { ...content, generation: change.generation },
        provider: { ...provider, isStatusInvalid: false },
      };
    case "applied": {
      const { revision: handled, resolved: applied } = change;
      return { ...state, content: { ...content, handled, applied } };
    }
    case "rejected":
      return { ...state, content: { ...content, isOver: true } };
    case "reported":
      return {
        ...state,
        content: change.isEnd ? { ...content, isOver: true } : content,
        provider: reported(provider, change),
      };
    case "statusInvalid":
      return { ...state, provider: { ...provider, isStatusInvalid: true } };
    case "stopped":
      return { ...state, provider: { ...provider, isStopped: true } };
    case "removed":
      return { ...state, provider: { ...provider, isRemoved: true } };
    case "finalized":
      return { ...state, api: { ...api, isFinalized: true } };
    default:
      return change satisfies never;
  }
}

/** On a tie, keeps the watch's copy, because the informer's cache already holds it. */
function watched({ api, content, provider }: PodState, pod: Pod): PodState {
  const newest = versionOf(pod) >= versionOf(api.pod) ? pod : api.pod;
  // Also compare for an outdated event: the response to a write may already have contained its change.
  const isChanged = isRelevantChange(api.compared, newest, provider.ownAnnotations);
  return {
    api: { ...api, pod: newest, compared: newest },
    content: isChanged ? { ...content, revision: content.revision + 1 } : content,
    provider,
  };
}

/** Responses to writes and events of the watch may arrive in any order. */
function written(state: PodState, pod: Pod): PodState {
  if (versionOf(pod) <= versionOf(state.api.pod)) return state;
  return { ...state, api: { ...state.api, pod } };
}

function reported(
  provider: ProviderState,
  { isEnd, annotations, isDeleted }: Extract<PodChange, { kind: "reported" }>,
): ProviderState {
  const isNewlyRemoved = isDeleted && !provider.isRemoved;
  return {
    ...provider,
    hasReported: true,
    isStatusInvalid: false,
    isEnded: isEnd,
    hasDeleted: provider.hasDeleted || isNewlyRemoved,
    isRemoved: provider.isRemoved || isNewlyRemoved,
    ownAnnotations: withKeys(provider.ownAnnotations, annotations),
  };
}

function withKeys(known: ReadonlySet<string>, keys: readonly string[]): ReadonlySet<string> {
  return keys.every((key) => known.has(key)) ? known : new Set([...known, ...keys]);
}
