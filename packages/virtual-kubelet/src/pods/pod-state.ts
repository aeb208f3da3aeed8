import type { Pod } from "@kip/k8s-types";
import type { ResolvedPod } from "../pod-provider.ts";
import { isFinished, mayStillRun, versionOf } from "./pod-facts.ts";
import { isRelevantChange } from "./relevant-change.ts";

/** The pod's object in the API. */
interface ApiState {
  /** The newest known version. */
  readonly pod: Pod;
  /** The version that the next event of the watch is compared with, to see whether the provider has to know. */
  readonly compared: Pod;
  /** The API server has deleted the object. */
  readonly isGone: boolean;
  /** The object's deletion was completed; finalizers of others may still hold it. */
  readonly isFinalized: boolean;
}

/** What the provider is to run. */
interface ContentState {
  /** Counts the changes that the provider has to know, from 1. */
  readonly revision: number;
  /** Newest revision that the provider accepted or rejected; 0 before the first. */
  readonly handled: number;
  /** What the provider accepted last; undefined if it has accepted nothing yet. */
  readonly applied: ResolvedPod | undefined;
  /** Generation of the pod that the provider was given last. */
  readonly generation: number | undefined;
}

/** What the provider has done with the pod. */
interface ProviderState {
  /** Whether it can stop a pod and keep its logs. */
  readonly canFinish: boolean;
  /** It has reported a status: then the library writes none of its own. */
  readonly hasReported: boolean;
  /** Its last status cannot be written, and it was not given the pod since. */
  readonly isStatusInvalid: boolean;
  /** Its last report says that the pod has ended: nothing of it runs, and its logs are kept. */
  readonly isEnded: boolean;
  /** What still ran of the pod was stopped, because the pod is terminal in the API. */
  readonly isStopped: boolean;
  /** It has removed the pod by itself, for good. */
  readonly hasDeleted: boolean;
  /** It has nothing left of the pod. */
  readonly isRemoved: boolean;
  /** Keys of the annotations that it has set. */
  readonly ownAnnotations: ReadonlySet<string>;
}

/** All that a pod's next step is planned from. Only {@link reducePod} makes a new one. */
export interface PodState {
  readonly api: ApiState;
  readonly content: ContentState;
  readonly provider: ProviderState;
}

/** What can happen to a pod. */
export type PodChange =
  /** A version of the object was received, as an event of the watch or as the answer to a write. */
  | { readonly kind: "seen"; readonly pod: Pod; readonly source: "watch" | "write" }
  /** The API server has deleted the object. */
  | { readonly kind: "objectDeleted" }
  /** Something that the pod refers to has changed, or the provider has lost the pod. */
  | { readonly kind: "contentChanged" }
  /** The provider is given the pod now: it may report a status before it has accepted it. */
  | { readonly kind: "offered"; readonly generation: number | undefined }
  /** The provider has accepted this revision. */
  | { readonly kind: "applied"; readonly revision: number; readonly resolved: ResolvedPod }
  /** The provider can never run the pod. */
  | { readonly kind: "rejected" }
  /** The provider reported a valid status. */
  | {
      readonly kind: "reported";
      readonly isEnd: boolean;
      /** Keys of the annotations that came with it. */
      readonly annotations: readonly string[];
      readonly isDeleted: boolean;
    }
  /** The provider reported a status that is invalid, or that the API server refuses. */
  | { readonly kind: "statusInvalid" }
  /** The step `finish` is done. */
  | { readonly kind: "stopped" }
  /** The provider has nothing left of the pod: the steps `remove` and `forget`. */
  | { readonly kind: "removed" }
  /** The step `finalize` is done: the object is deleted, or waits for finalizers of others. */
  | { readonly kind: "finalized" };

/** The state at first sight of a pod, perhaps after a restart of the process. */
export function initialPodState(
  pod: Pod,
  { canFinish }: Pick<ProviderState, "canFinish">,
): PodState {
  return {
    api: { pod, compared: pod, isGone: false, isFinalized: false },
    content: { revision: 1, handled: 0, applied: undefined, generation: undefined },
    provider: {
      canFinish,
      hasReported: false,
      isStatusInvalid: false,
      // Removing a pod that its provider reported as ended would lose its logs.
      isEnded: isFinished(pod) && !canFinish && !mayStillRun(pod),
      isStopped: false,
      hasDeleted: false,
      isRemoved: false,
      ownAnnotations: new Set(),
    },
  };
}

/** The state after a change; the same object if nothing is different. */
export function reducePod(state: PodState, change: PodChange): PodState {
  const { api, content, provider } = state;
  switch (change.kind) {
    case "seen":
      return change.source === "watch" ? watched(state, change.pod) : written(state, change.pod);
    case "objectDeleted":
      return { ...state, api: { ...api, isGone: true } };
    case "contentChanged":
      return { ...state, content: { ...content, revision: content.revision + 1 } };
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
      return { ...state, content: { ...content, handled: content.revision } };
    case "reported":
      return { ...state, provider: reported(provider, change) };
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

/** Of two equal versions the watch's copy is kept, because the informer's cache holds it already. */
function watched({ api, content, provider }: PodState, pod: Pod): PodState {
  const newest = versionOf(pod) >= versionOf(api.pod) ? pod : api.pod;
  // Also if the event is outdated: the answer to a write may have shown what it announces.
  const isChanged = isRelevantChange(api.compared, newest, provider.ownAnnotations);
  return {
    api: { ...api, pod: newest, compared: newest },
    content: isChanged ? { ...content, revision: content.revision + 1 } : content,
    provider,
  };
}

/** Answers to writes and events of the watch overtake each other. */
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
