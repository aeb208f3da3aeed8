import type { Pod } from "@kip/k8s-types";
import type { AgentPart } from "../state/cell-state.ts";

/** What each document costs its pod, milliseconds: in the long run the pod gets one document in that time. */
const documentMs = 10_000;
/** The cost of each MiB in addition: making a document of 8 MiB takes 60 ms, in which kip does nothing else. */
const mebibyteMs = 10_000;
/**
 * The cost that a pod may run up before it waits, milliseconds: five small documents. A document of any length goes
 * at once to a pod that has had none for a while.
 */
const creditMs = 45_000;

/** The highest cost of a new pod's document that its agent did not take, milliseconds: three can go at once. */
const newPodMs = 22_500;
/**
 * The credit in addition for a version that ends the pod sooner, milliseconds: one document of any length goes
 * although others would wait. It costs as much as others, so that a deadline that gets shorter again and again is not
 * sent more often in the long run.
 */
const deadlineCreditMs = 90_000;
/** How long such a version waits for another one that ends the pod still sooner, milliseconds. */
const deadlinePauseMs = 1000;

/** Charges a document that was made for the agent. One of a new pod that the agent did not take costs less. */
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
 * How long the newest version of the pod waits before it is sent, milliseconds; 0 or less: not at all. Without this a
 * pod that changes all the time, or mounts a ConfigMap that does, would take all of kip's time. With a kubelet, too,
 * a pod gets the new content of a ConfigMap only after a minute or so.
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
