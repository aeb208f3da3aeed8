import type { Pod } from "@kip/k8s-types";
import type { AgentPart } from "../state/cell-state.ts";

/** What a document costs the pod that it is made for: the time in which it can have another one in the long run, milliseconds. */
const documentMs = 10_000;
/** The same for each MiB of it: to make one of 8 MiB takes 60 ms, in which kip does nothing else. */
const mebibyteMs = 10_000;
/**
 * What a pod may have at once before it waits, milliseconds. It is enough for five small documents; one of any length goes at once
 * to a pod that has had none for a while.
 */
const creditMs = 45_000;

/** What a document costs at most that a new pod's agent did not take, milliseconds: three can go at once. */
const newPodMs = 22_500;
/**
 * What a version that ends the pod sooner may have besides, milliseconds: one document of any length, when others would wait. It
 * counts like them, so that deadlines that get shorter again and again are as rare in the long run.
 */
const deadlineCreditMs = 90_000;
/** How long such a version waits for others that end the pod still sooner, milliseconds. */
const deadlinePauseMs = 1000;

/** Notes that a document was made for the agent: one of a new pod, which it did not take, costs less. */
export function withDocument(
  agent: AgentPart,
  { bytes, isNewPod }: { readonly bytes: number; readonly isNewPod: boolean },
  nowMs: number,
): AgentPart {
  const wholeMs = documentMs + (mebibyteMs * bytes) / 2 ** 20;
  const costMs = isNewPod ? Math.min(wholeMs, newPodMs) : wholeMs;
  return { ...agent, documentsPaidAt: Math.max(agent.documentsPaidAt ?? nowMs, nowMs) + costMs };
}

/**
 * How long the newest version of the pod waits before it is sent, milliseconds; 0 or less: it does not. A pod that changes again and
 * again, or that mounts a ConfigMap that does, would otherwise take all of kip's time. A kubelet, too, takes up to a minute or so
 * until a pod has the new content of a ConfigMap.
 */
export function dispatchPauseMs(
  { documentsPaidAt, endsSoonerAt }: AgentPart,
  nowMs: number,
): number {
  if (documentsPaidAt === undefined) return 0;
  const pauseMs = documentsPaidAt - nowMs - creditMs;
  if (endsSoonerAt === undefined) return pauseMs;
  return Math.min(pauseMs, Math.max(pauseMs - deadlineCreditMs, endsSoonerAt - nowMs));
}

/** Notes that `activeDeadlineSeconds` of the pod became shorter, until its newest version is sent. */
export function withDeadline(
  agent: AgentPart,
  { before, next }: { readonly before: Pod | undefined; readonly next: Pod },
  nowMs: number,
): AgentPart {
  if (agent.endsSoonerAt !== undefined || deadlineOf(next) >= deadlineOf(before)) return agent;
  return { ...agent, endsSoonerAt: nowMs + deadlinePauseMs };
}

function deadlineOf(pod: Pod | undefined): number {
  return pod?.spec.activeDeadlineSeconds ?? Infinity;
}
