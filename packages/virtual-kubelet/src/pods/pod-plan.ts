import type { NoArguments, Plan, StepOf } from "@kip/reconcile";
import { gracePeriodSeconds, isFinished } from "./pod-facts.ts";
import type { PodState } from "./pod-state.ts";

/**
 * The steps of a pod and their arguments. A running pod needs `apply` once for each change. A pod that is being deleted needs
 * `remove`, then `finalize`. `finish` is for a pod that another client made terminal in the API, and `forget` for one whose
 * object is gone.
 */
export interface PodStepArgs {
  /** Passes the pod's newest content to the provider. */
  readonly apply: { readonly revision: number };
  /** Makes the provider stop whatever is still running of the pod, because the pod is terminal in the API. */
  readonly finish: NoArguments;
  /** Makes the provider stop the pod and release its resources. */
  readonly remove: {
    readonly graceSeconds: number;
    /** Whether the pod is being deleted. Otherwise it is terminal, and its provider does not support `finish`. */
    readonly isDeletion: boolean;
  };
  /** Writes the pod's last status and completes the deletion of its object. */
  readonly finalize: NoArguments;
  /** Makes the provider drop the pod, because its object is gone. */
  readonly forget: NoArguments;
}

export type PodStep = StepOf<PodStepArgs>;

/** The next step of a pod, or nothing. */
export function planPod(state: PodState): Plan<PodStep> {
  const step = nextStep(state);
  return { steps: step ? [step] : [] };
}

/** Whether the next step has this kind. */
export function isPlanned(state: PodState, kind: keyof PodStepArgs): boolean {
  return nextStep(state)?.kind === kind;
}

/** The input of a step. When it changes, the pause after a failure ends. */
export function stepInput(step: PodStep): unknown {
  if (step.kind === "apply") return step.revision;
  if (step.kind === "remove") return `${step.graceSeconds} ${step.isDeletion}`;
  // Other steps do not depend on the content, so writes to the pod must not shorten their pauses.
  return undefined;
}

/** Whether the provider has accepted the pod and should be running it. */
export function shouldBePresent({ api, content, provider }: PodState): boolean {
  return (
    content.applied !== undefined &&
    content.handled === content.revision &&
    !content.isOver &&
    !provider.isRemoved &&
    !api.isGone &&
    api.pod.metadata.deletionTimestamp === undefined &&
    !isFinished(api.pod)
  );
}

function nextStep({ api, content, provider }: PodState): PodStep | undefined {
  const { pod } = api;
  if (api.isGone) return provider.isRemoved ? undefined : { kind: "forget" };
  const isDeletion = pod.metadata.deletionTimestamp !== undefined;
  const remove = { kind: "remove", graceSeconds: gracePeriodSeconds(pod), isDeletion } as const;
  if (isDeletion || provider.hasDeleted) {
    if (!provider.isRemoved) return remove;
    return api.isFinalized ? undefined : { kind: "finalize" };
  }
  if (provider.isRemoved) return undefined;
  if (isFinished(pod)) {
    // Any client may have set the phase. Without a report to this process, an earlier process may have applied the pod.
    if (provider.isEnded || provider.isStopped) return undefined;
    return provider.canFinish ? { kind: "finish" } : remove;
  }
  // The API will show that it has failed or ended. Until then nothing may start it.
  if (content.isOver) return undefined;
  const { revision, handled } = content;
  return handled < revision ? { kind: "apply", revision } : undefined;
}
