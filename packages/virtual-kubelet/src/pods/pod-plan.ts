import type { NoArguments, Plan, StepOf } from "@kip/reconcile";
import { gracePeriodSeconds, isFinished } from "./pod-facts.ts";
import type { PodState } from "./pod-state.ts";

/**
 * The steps of a pod, and their arguments. A pod that runs needs `apply`, once for each change. One that is being deleted needs
 * `remove`, then `finalize`. `finish` is for a pod that became terminal in the API without its provider, `forget` for one whose
 * object has disappeared.
 */
export interface PodStepArgs {
  /** Gives the pod's newest content to the provider. */
  readonly apply: { readonly revision: number };
  /** Has the provider stop what still runs of the pod, because it is terminal in the API. */
  readonly finish: NoArguments;
  /** Has the provider stop the pod and release what it holds. */
  readonly remove: {
    readonly graceSeconds: number;
    /** Whether the pod's deletion was requested; otherwise it is terminal, and its provider cannot `finish` pods. */
    readonly isDeletion: boolean;
  };
  /** Writes the pod's last status and completes the deletion of its object. */
  readonly finalize: NoArguments;
  /** Has the provider drop the pod, because its object is gone. */
  readonly forget: NoArguments;
}

export type PodStep = StepOf<PodStepArgs>;

/** What to do next for a pod: one step, or nothing. */
export function planPod(state: PodState): Plan<PodStep> {
  const step = nextStep(state);
  return { steps: step ? [step] : [] };
}

/** Whether a step of this kind is what to do next. */
export function isPlanned(state: PodState, kind: keyof PodStepArgs): boolean {
  return nextStep(state)?.kind === kind;
}

/** What a failed step depends on: a change of it ends the pause before the next attempt. */
export function stepInput(step: PodStep): unknown {
  if (step.kind === "apply") return step.revision;
  if (step.kind === "remove") return `${step.graceSeconds} ${step.isDeletion}`;
  // Others do not depend on the content: writes to the pod must not shorten their pauses.
  return undefined;
}

/** Whether the provider has accepted the pod, and should have it and run it now. */
export function shouldBePresent({ api, content, provider }: PodState): boolean {
  return (
    content.applied !== undefined &&
    content.handled === content.revision &&
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
    // Any client may have set the phase. Without a report in this process, an earlier process may have applied the pod.
    if (provider.isEnded || provider.isStopped) return undefined;
    return provider.canFinish ? { kind: "finish" } : remove;
  }
  const { revision, handled } = content;
  return handled < revision ? { kind: "apply", revision } : undefined;
}
